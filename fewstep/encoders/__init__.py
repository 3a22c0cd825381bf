"""Pretrained encoders: from photographs, texts and rows to features, or into a network whose last blocks adapt.

`find_encoder(name)` gives an `Encoder`, `encode_all(encoder, items)` the features of many items, computed once.
"""

from fewstep.encoders._encode import encode_all as encode_all
from fewstep.encoders._encode import encode_few as encode_few
from fewstep.encoders._encoder import Encoder as Encoder
from fewstep.encoders._encoder import Item as Item
from fewstep.encoders._encoder import Modality as Modality
from fewstep.encoders._find import ENCODERS as ENCODERS
from fewstep.encoders._find import factory_of as factory_of
from fewstep.encoders._find import find_encoder as find_encoder
from fewstep.encoders._find import is_encoder as is_encoder
