"""How a machine is used: how many devices share the tasks of a step, and how many tasks each takes at once."""

import itertools
import os
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import NamedTuple

import jax

from fewstep.experiments.experiment import Experiment

# Products of numbers in a step from which spreading its tasks over cores pays. Measured on 2 cores: 25 tasks of 10
# points on a perceptron of 100-100 (5e6) are as fast either way, of 50 points on 128-128 (4e7) half as fast again.
_HEAVY = 10_000_000
_THREADS = "PJRT_NPROC"  # how many threads JAX's CPU client gets, read when it starts


class Layout(NamedTuple):
    """The devices that share a step's tasks, and the tasks each takes at once (`None`: all of its share)."""

    devices: int
    chunk: int | None


def choose(experiment: Experiment, inner_steps: int) -> Layout:
    """The given layout, completed: heavy tasks one at a time on every core, light ones all together on one."""
    heavy = experiment.has_images or _work(experiment, inner_steps) >= _HEAVY
    devices = experiment.devices or (min(cores(), experiment.meta_batch) if heavy and on_cpu() else 1)
    return Layout(devices, experiment.chunk or (1 if heavy and on_cpu() else None))


def cores() -> int:
    """How many cores this process may use."""
    return len(usable_cores())


def usable_cores() -> set[int]:
    """The cores this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def prepare(layout: Layout, *, asked: bool) -> int:
    """Makes as many host devices as the layout wants, and returns how many to use.

    New devices can only be made before JAX has started. After that a number the user `asked` for stands, for
    `make_mesh` to say what is wrong with it; one that was chosen here gives way.
    """
    if layout.devices > 1 and on_cpu():
        try:
            jax.config.update("jax_num_cpu_devices", layout.devices)
        except RuntimeError:
            return layout.devices if asked else min(layout.devices, len(jax.devices()))
    elif on_cpu() and not jax.distributed.is_initialized():
        _start_with_one_thread()
    return layout.devices


def _start_with_one_thread() -> None:
    """Starts JAX, unless it has been, with one thread for its work: most kernels of a task take less time than handing
    them to another thread. A number that the user gave stands."""
    if _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        jax.devices()
    finally:
        del os.environ[_THREADS]  # processes that are started from here choose for themselves


def _work(experiment: Experiment, inner_steps: int) -> int:
    products = sum(a * b for a, b in itertools.pairwise(experiment.widths))
    rows = max(experiment.shots, experiment.queries) * (inner_steps + 1)
    return products * rows * experiment.meta_batch * experiment.seeds


def on_cpu() -> bool:
    """Whether the devices are host devices, without starting JAX."""
    asked = jax.config.jax_platforms  # type: ignore[attr-defined]
    accelerators = bool(entry_points(group="jax_plugins")) or find_spec("libtpu") is not None
    return asked.startswith("cpu") if asked else not accelerators
