"""Learners without an inner gradient, and baselines: by name as on the command line."""

from fewstep.learners._sequence import Sizes as Sizes
from fewstep.learners._sequence import nothing_but_x as nothing_but_x
from fewstep.learners.fixed_features import color_histogram as color_histogram
from fewstep.learners.fixed_features import nearest_mean as nearest_mean
from fewstep.learners.fixed_features import pixels as pixels
from fewstep.learners.gaussian import FITTING as FITTING
from fewstep.learners.gaussian import gaussian as gaussian
from fewstep.learners.gaussian import mixed as mixed
from fewstep.learners.kernel_heads import embedding as embedding
from fewstep.learners.kernel_heads import spectral as spectral
from fewstep.learners.matching import matching as matching
from fewstep.learners.metanet import metanet as metanet
from fewstep.learners.pretrained import finetune as finetune
from fewstep.learners.pretrained import neighbor as neighbor
from fewstep.learners.prototypes import prototypes as prototypes
from fewstep.learners.recurrent import recurrent as recurrent
from fewstep.learners.ridge import ridge as ridge
from fewstep.learners.snail import IMAGES as IMAGES
from fewstep.learners.snail import snail as snail

OF_CLASSES = ("prototypes", "matching", "embedding", "spectral", "neighbor", "finetune")
READERS = ("snail", "metanet", "recurrent")  # they read examples of any kind
PROCESSES = ("gaussian", "mixed")  # of numbers, not of classes
SOLVERS = ("ridge", *PROCESSES)  # a task is learned in closed form
LEARNERS = (*OF_CLASSES, *READERS, *SOLVERS)
