"""fewstep: learn from many small tasks to learn the next one in a few gradient steps.

A learner is a network, a rule and a loss; `train` meta-trains it on tasks, `evaluate` judges it on fresh ones::

    learner = fewstep.gradient_learner(fewstep.networks.mlp(), fewstep.rules.mtnet(0.01), fewstep.losses.squared_error)
    trained = fewstep.train(learner, fewstep.tasks.sinusoid(), steps=2000)
"""

from fewstep.machine import interrupt as _interrupt  # noqa: F401  # first: it guards the command line during imports

# isort: split
from typing import TYPE_CHECKING

from fewstep import augmentations as augmentations
from fewstep import losses as losses
from fewstep import networks as networks
from fewstep import outers as outers
from fewstep import rules as rules
from fewstep import tasks as tasks
from fewstep._episode import Batch as Batch
from fewstep._episode import Episode as Episode
from fewstep._episode import Tasks as Tasks
from fewstep._errors import FewstepError as FewstepError
from fewstep._learner import Adapted as Adapted
from fewstep._learner import Context as Context
from fewstep._learner import LearnedLoss as LearnedLoss
from fewstep._learner import Learner as Learner
from fewstep._learner import gradient_learner as gradient_learner
from fewstep._network import Layer as Layer
from fewstep._network import Leaf as Leaf
from fewstep._network import Network as Network
from fewstep._network import flatten as flatten
from fewstep._outer import Gradient as Gradient
from fewstep._outer import Outer as Outer
from fewstep._rule import Flat as Flat
from fewstep._rule import Layers as Layers
from fewstep._rule import Meta as Meta
from fewstep._rule import Rule as Rule
from fewstep._rule import Stage as Stage
from fewstep._rule import chain as chain
from fewstep._rule import link as link
from fewstep.evaluation import Score as Score
from fewstep.evaluation import evaluate as evaluate
from fewstep.evaluation import make_validate as make_validate
from fewstep.inspection import describe as describe
from fewstep.inspection import inspect as inspect
from fewstep.interop import network as network
from fewstep.outers import first_order as first_order
from fewstep.outers import reptile as reptile
from fewstep.outers import unrolled as unrolled
from fewstep.sweeps import sweep as sweep
from fewstep.tasks import batch as batch
from fewstep.training import Trained as Trained
from fewstep.training import train as train

if TYPE_CHECKING:
    from fewstep.experiments import Experiment as Experiment

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`Experiment` is loaded when it is first used: with it comes all that a run needs."""
    if name == "Experiment":
        from fewstep.experiments import Experiment

        return Experiment
    raise AttributeError(f"module 'fewstep' has no attribute {name!r}")
