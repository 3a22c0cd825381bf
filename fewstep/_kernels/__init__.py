"""Gaussian kernels and dependence on labels: what layer-wise networks and kernel heads are made of, in plain JAX."""
