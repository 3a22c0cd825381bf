"""A training on disk: its configuration, checkpoints and metrics; created, trained, resumed, loaded."""

from fewstep.runs.create import create_run as create_run
from fewstep.runs.image_baselines import better_baseline as better_baseline
from fewstep.runs.image_baselines import image_baselines as image_baselines
from fewstep.runs.model import Model as Model
from fewstep.runs.model import adapt as adapt
from fewstep.runs.model import evaluate_places as evaluate_places
from fewstep.runs.model import evaluate_run as evaluate_run
from fewstep.runs.model import load as load
from fewstep.runs.run import Run as Run
from fewstep.runs.run import open_run as open_run
from fewstep.runs.table_model import baseline_rows as baseline_rows
from fewstep.runs.table_model import calibrate_run as calibrate_run
from fewstep.runs.table_model import ensemble_of as ensemble_of
from fewstep.runs.table_model import evaluate_table as evaluate_table
from fewstep.runs.train import Progress as Progress
from fewstep.runs.train import train_run as train_run
