"""The poster's table of layer-wise networks, and what it claims, as one command.

Reference: Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding (poster).
"""

from fewstep.reproduce.layerwise._report import tables as tables
from fewstep.reproduce.layerwise._run import NAME as NAME
from fewstep.reproduce.layerwise._run import QUICK as QUICK
from fewstep.reproduce.layerwise._run import Scale as Scale
from fewstep.reproduce.layerwise._run import reproduce as reproduce
