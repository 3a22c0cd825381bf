"""Strict switches for all tests: types are checked at run time, ranks must match, several host devices are there."""

import os

os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 " + os.environ.get("XLA_FLAGS", "")

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_num_cpu_devices", 3)
jax.config.update("jax_numpy_rank_promotion", "raise")
install_import_hook("fewstep", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")
