"""An experiment: what to train, on what, and how; and what is built of it."""

from fewstep.experiments.experiment import Experiment as Experiment
