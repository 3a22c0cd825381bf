"""An experiment: what to train, on what, and how; and what is built of it."""

from fewstep.experiments._auto import weight_sizes as weight_sizes
from fewstep.experiments._fitting import TrainedMember as TrainedMember
from fewstep.experiments._heads import LEARNER_METHODS as LEARNER_METHODS
from fewstep.experiments._methods import ALIASES as ALIASES
from fewstep.experiments._methods import AROUND as AROUND
from fewstep.experiments._outer_step import plans_for_its_steps as plans_for_its_steps
from fewstep.experiments._problem import make_problem as make_problem
from fewstep.experiments._problem import network_options as network_options
from fewstep.experiments.build import Built as Built
from fewstep.experiments.build import build as build
from fewstep.experiments.experiment import VERSION as VERSION
from fewstep.experiments.experiment import Experiment as Experiment
from fewstep.experiments.experiment import OptionPlan as OptionPlan
from fewstep.experiments.experiment import every_option as every_option
from fewstep.experiments.experiment import flag as flag
from fewstep.experiments.experiment import option_names as option_names
from fewstep.experiments.experiment import plan_of as plan_of
