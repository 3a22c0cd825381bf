"""Learners without an inner gradient, and baselines: by name as on the command line."""

from fewstep.learners.kernel_heads import embedding as embedding
from fewstep.learners.kernel_heads import spectral as spectral
from fewstep.learners.matching import matching as matching
from fewstep.learners.pretrained import finetune as finetune
from fewstep.learners.pretrained import neighbour as neighbour
from fewstep.learners.prototypes import prototypes as prototypes

LEARNERS = ("prototypes", "matching", "embedding", "spectral", "neighbour", "finetune")
