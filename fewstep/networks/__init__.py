"""Networks as plain functions."""

from fewstep.networks.mlp import mlp as mlp
