"""Meta-training: the outer loop, and the state that it can be resumed from."""

from fewstep.training._average import average_of as average_of
from fewstep.training._average import averaging as averaging
from fewstep.training._finite import NotFinite as NotFinite
from fewstep.training._segment import Best as Best
from fewstep.training._segment import Segment as Segment
from fewstep.training._segment import TrainState as TrainState
from fewstep.training._segment import first_state as first_state
from fewstep.training._segment import make_segment as make_segment
from fewstep.training._segment import one_seed as one_seed
from fewstep.training._segment import state_of as state_of
from fewstep.training._train import Row as Row
from fewstep.training._train import Trained as Trained
from fewstep.training._train import train as train
