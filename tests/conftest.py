"""Strict switches for all tests: types are checked at run time, ranks must match, several host devices are there."""

import gc
import os
import tempfile
from pathlib import Path

# One cache of compiled programs for the whole session, its workers and the processes it starts: many tests train the
# same small experiment, and compiling is nearly all the time they take.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="fewstep-tests-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# XLA's older emitters compile the same programs in a third of the time; they run slower, which no test here minds.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false " + os.environ.get(
    "XLA_FLAGS", ""
)

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_num_cpu_devices", 3)
jax.config.update("jax_numpy_rank_promotion", "raise")
_CHECK = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
install_import_hook(["fewstep", "fewstep_studies"], _CHECK)
# Tracing makes many objects that live long: looking for cycles among them as often as usual is a sixth of the time.
gc.set_threshold(200_000, 100, 1000)

_MAX_MAPS, _EVERY = 30_000, 20  # mappings of memory: Linux allows 65,530, and the compiler crashes at that
_ended = 0


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Forgets compiled programs before there are too many: each takes several mappings of memory."""
    global _ended
    _ended += 1
    maps = Path("/proc/self/maps")
    if _ended % _EVERY == 0 and maps.exists() and maps.read_bytes().count(b"\n") > _MAX_MAPS:
        jax.clear_caches()
        gc.collect()
