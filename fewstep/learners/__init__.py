"""Learners without an inner gradient, and baselines: by name as on the command line."""

from fewstep.learners._process import log_likelihood as log_likelihood
from fewstep.learners._sequence import Sizes as Sizes
from fewstep.learners._sequence import nothing_but_x as nothing_but_x
from fewstep.learners.attentive import anp as anp
from fewstep.learners.fixed_features import color_histogram as color_histogram
from fewstep.learners.fixed_features import nearest_mean as nearest_mean
from fewstep.learners.fixed_features import pixels as pixels
from fewstep.learners.gaussian import FITTING as FITTING
from fewstep.learners.gaussian import gaussian as gaussian
from fewstep.learners.gaussian import mixed as mixed
from fewstep.learners.kernel_heads import embedding as embedding
from fewstep.learners.kernel_heads import spectral as spectral
from fewstep.learners.laplace import laplace as laplace
from fewstep.learners.logistic import logistic as logistic
from fewstep.learners.matching import matching as matching
from fewstep.learners.metanet import metanet as metanet
from fewstep.learners.metric import discriminant as discriminant
from fewstep.learners.metric import metric as metric
from fewstep.learners.portfolio import Member as Member
from fewstep.learners.portfolio import all_numbers as all_numbers
from fewstep.learners.portfolio import portfolio as portfolio
from fewstep.learners.pretrained import finetune as finetune
from fewstep.learners.pretrained import neighbor as neighbor
from fewstep.learners.prototypes import prototypes as prototypes
from fewstep.learners.recurrent import recurrent as recurrent
from fewstep.learners.residual import residual as residual
from fewstep.learners.ridge import ridge as ridge
from fewstep.learners.snail import IMAGES as IMAGES
from fewstep.learners.snail import snail as snail
from fewstep.learners.tnp import np as np
from fewstep.learners.trees import pooled as pooled
from fewstep.learners.trees import shifted as shifted
from fewstep.learners.trees import trees as trees

OF_CLASSES = ("prototypes", "matching", "embedding", "spectral", "metric", "logistic", "neighbor", "finetune")
READERS = ("snail", "metanet", "recurrent")  # they read examples of any kind
PROCESSES = ("gaussian", "mixed")  # of numbers, not of classes
SOLVERS = ("ridge", *PROCESSES)  # a task is learned in closed form
NEURAL_PROCESSES = ("np", "anp")  # of rows of numbers; they know how sure they are
TREES = ("trees", "shifted", "pooled")  # fitted to rows, not by outer steps
LEARNERS = (*OF_CLASSES, *READERS, *SOLVERS, *NEURAL_PROCESSES, *TREES)
