"""Gaussian kernels and dependence on labels: what layer-wise networks and kernel heads are made of, in plain JAX."""

from fewstep._kernels._temperature import held_out as held_out
from fewstep._kernels._temperature import temperature as temperature
