"""How a machine is used: how many devices share the tasks of a step, and how many tasks each takes at once."""

import itertools
import os

import jax
import numpy as np
from jax.sharding import Mesh

from fewstep._errors import FewstepError
from fewstep.experiments import Experiment
from fewstep.machine import distributed
from fewstep.machine.devices import Layout, cores, on_cpu

# Products of numbers in a step from which spreading its tasks over cores pays. Measured on 2 cores: 25 tasks of 10
# points on a perceptron of 100-100 (5e6) are as fast either way, of 50 points on 128-128 (4e7) half as fast again.
_HEAVY = 10_000_000
_THREADS = "PJRT_NPROC"  # how many threads JAX's CPU client gets, read when it starts


def choose(experiment: Experiment) -> Layout:
    """The given layout, completed: heavy tasks one at a time on every core, light ones all together on one."""
    if experiment.parts:  # made before the first of them starts JAX
        return max((choose(part) for part in experiment.parts.values()), key=lambda layout: layout.devices)
    if not experiment.has("meta_batch"):
        return Layout(1, None)
    heavy = (experiment.kind.heavy or _work(experiment) >= _HEAVY) and on_cpu()
    devices = experiment.devices or (min(cores(), experiment.meta_batch) if heavy else 1)
    return Layout(devices, experiment.chunk or (1 if heavy else None))


def lay_out(experiment: Experiment, layout: Layout | None = None) -> Layout:
    """The devices of a training, made before JAX starts, and its chunk: by rule of thumb, unless a layout is chosen. Of
    several processes, all start JAX here."""
    explicit = experiment.devices > 0
    places = distributed.agreed_layout(layout or choose(experiment), explicit=explicit)
    places = places._replace(devices=prepare(places, explicit=explicit))
    if distributed.several():
        jax.devices()  # it waits for the others, so none may be waiting for something else
    return places


def make_mesh(devices: int) -> Mesh | None:
    """A mesh of that many devices with one axis, `tasks`; none for a single device. Of several processes, each has as
    many."""
    if distributed.several():
        return distributed.make_mesh(devices)
    if devices == 1:
        return None
    there = jax.devices()
    if len(there) < devices:
        raise FewstepError(
            f"`devices` is {devices} and JAX sees {len(there)}. Use `devices={len(there)}`, or start a new process."
        )
    return Mesh(np.asarray(there[:devices]), ("tasks",))


def prepare(layout: Layout, *, explicit: bool) -> int:
    """Makes as many host devices as the layout wants, and returns how many to use.

    New devices can only be made before JAX has started. After that an `explicit` number, the user's, stands, for
    `make_mesh` to say what is wrong with it; one that was chosen here gives way.
    """
    if layout.devices > 1 and on_cpu():
        try:
            jax.config.update("jax_num_cpu_devices", layout.devices)
        except RuntimeError:
            return layout.devices if explicit else min(layout.devices, len(jax.devices()))
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


def _work(experiment: Experiment) -> int:
    """About how many products a step takes, of a perceptron or of the blocks of a transformer."""
    if experiment.has("ff"):
        own = 4 * experiment.width**2 + 2 * experiment.width * experiment.ff
        rows = experiment.shots + experiment.queries
        return experiment.blocks * own * rows * experiment.meta_batch * experiment.seeds
    widths = experiment.hidden if experiment.has("hidden") else (40, 40)
    steps = experiment.inner_steps if experiment.has("inner_steps") else 0
    rows = max(experiment.shots, experiment.queries) * (steps + 1)
    return sum(a * b for a, b in itertools.pairwise(widths)) * rows * experiment.meta_batch * experiment.seeds
