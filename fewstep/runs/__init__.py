"""A training on disk: its configuration, checkpoints and metrics; created, trained, resumed, loaded."""

from fewstep.runs.budget import planned as planned
from fewstep.runs.budget import steps_within as steps_within
from fewstep.runs.checkpoint import checkpoint_steps as checkpoint_steps
from fewstep.runs.create import create_run as create_run
from fewstep.runs.folder import RunFolder as RunFolder
from fewstep.runs.load import calibrate_run as calibrate_run
from fewstep.runs.load import load as load
from fewstep.runs.outcome import Outcome as Outcome
from fewstep.runs.outcome import Progress as Progress
from fewstep.runs.outcome import silent as silent
from fewstep.runs.run import Run as Run
from fewstep.runs.run import holds_something as holds_something
from fewstep.runs.run import open_run as open_run
from fewstep.runs.run import version as version
from fewstep.runs.settings import differences as differences
from fewstep.runs.train import train_run as train_run
