"""Looks inside: a network's layers, what a rule has learned, and the theory behind it as constructions."""

from fewstep.inspection._describe import describe as describe
from fewstep.inspection._describe import layer_lines as layer_lines
from fewstep.inspection._inspect import LayerReport as LayerReport
from fewstep.inspection._inspect import Report as Report
from fewstep.inspection._inspect import inspect as inspect
from fewstep.inspection._subspace import MTNetLayer as MTNetLayer
from fewstep.inspection._subspace import subspace_cell as subspace_cell
