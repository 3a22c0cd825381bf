"""Images: where they come from, how they are checked, split and kept."""

from fewstep.data._decode import UnreadableImage as UnreadableImage
from fewstep.data._load import count as count
from fewstep.data._load import load as load
from fewstep.data._load import pin as pin
from fewstep.data._places import folders as folders
from fewstep.data._places import images_at as images_at
from fewstep.data._places import look_in as look_in
from fewstep.data._places import on_progress as on_progress
from fewstep.data._sample import SAMPLES as SAMPLES
from fewstep.data._set import ImageSet as ImageSet
from fewstep.data._set import make_set as make_set
from fewstep.data._set import split_classes as split_classes
from fewstep.data._sources import SOURCES as SOURCES
from fewstep.data._sources import check as check
from fewstep.data._sources import find as find
from fewstep.data._sources import get as get
from fewstep.data._sources import source as source
from fewstep.data._warp import warped as warped
from fewstep.files import cache as cache
