"""How JAX computes, whatever it computes: devices, random numbers, compiler options. Nothing here knows of learning."""

from fewstep.compute._compile import light as light
from fewstep.compute._factor import cholesky as cholesky
from fewstep.compute._factor import solve_factored as solve_factored
from fewstep.compute._factor import solve_lower as solve_lower
from fewstep.compute._factor import solve_positive as solve_positive
from fewstep.compute._mesh import everywhere as everywhere
from fewstep.compute._mesh import on_mesh as on_mesh
from fewstep.compute._random import written_out as written_out
from fewstep.compute._tree import uphill as uphill
from fewstep.compute._tree import weighted_sum as weighted_sum
