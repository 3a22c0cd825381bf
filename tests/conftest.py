"""Strict switches for all tests: types are checked at run time, ranks must match, several host devices are there."""

import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

# One cache of compiled programs for the whole session, its workers and the processes it starts: many tests train the
# same small experiment, and compiling is nearly all the time they take. Even the smallest program takes four times as
# long to compile as to read.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="fewstep-tests-"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# XLA's older emitters compile the same programs in a third of the time, and each in one piece in a sixth less again;
# they run slower, which no test here minds.
os.environ["XLA_FLAGS"] = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 "
    + os.environ.get("XLA_FLAGS", "")
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
# What a shell runs in its background is deaf to Ctrl-C, and so would be the processes that tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Linux gives a process 65,530 memory maps, and each compiled program takes some: with no room for one more, it crashes.
_MAPS, _MANY = Path("/proc/self/maps"), 25_000


@pytest.fixture(autouse=True)
def forget_data_folder():
    """A folder that one test looks in for data is none of the next one's business."""
    yield
    if (data := sys.modules.get("fewstep.data")) is not None:
        data.look_in(None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """Between two files, forgets what is compiled, once it is much."""
    yield
    if nextitem is not None and nextitem.path != item.path and _MAPS.exists():
        with _MAPS.open("rb") as maps:
            many = sum(1 for _ in maps) > _MANY
        if many:
            jax.clear_caches()
            gc.collect()
