"""Gaussian kernels and dependence on labels: what layer-wise networks and kernel heads are made of, in plain JAX."""

from fewstep._kernels._hsic import Labels as Labels
from fewstep._kernels._hsic import best_bandwidth as best_bandwidth
from fewstep._kernels._hsic import hsic as hsic
from fewstep._kernels._kernel import AnyArray as AnyArray
from fewstep._kernels._kernel import Rows as Rows
from fewstep._kernels._kernel import Waves as Waves
from fewstep._kernels._kernel import draw_waves as draw_waves
from fewstep._kernels._kernel import gaussian as gaussian
from fewstep._kernels._kernel import map_blocks as map_blocks
from fewstep._kernels._kernel import over_blocks as over_blocks
from fewstep._kernels._kernel import random_features as random_features
from fewstep._kernels._kernel import squared_distances as squared_distances
from fewstep._kernels._measure import Alignment as Alignment
from fewstep._kernels._measure import alignment as alignment
from fewstep._kernels._measure import center as center
from fewstep._kernels._measure import linear_alignment as linear_alignment
from fewstep._kernels._measure import one_hot as one_hot
from fewstep._kernels._measure import scatter_ratio as scatter_ratio
from fewstep._kernels._measure import silhouette as silhouette
from fewstep._kernels._measure import trace_ratio as trace_ratio
from fewstep._kernels._spectral import Solution as Solution
from fewstep._kernels._spectral import matrix_of as matrix_of
from fewstep._kernels._spectral import residual as residual
from fewstep._kernels._spectral import solve as solve
from fewstep._kernels._temperature import draw_holdout as draw_holdout
from fewstep._kernels._temperature import temperature as temperature
