"""How a machine is used: how many devices share the tasks of a step, and how many tasks each takes at once."""

import itertools
import os
from importlib.metadata import entry_points
from typing import NamedTuple

import jax

from fewstep.runs.experiment import Experiment

# Products of numbers in a task from which spreading tasks over cores pays: measured on 2 cores, a perceptron of
# 40-40 with 10 points (3e4) loses by it, one of 128-128 with 50 points (2e6) gains a factor of two.
_HEAVY = 1_000_000


class Layout(NamedTuple):
    """The devices that share a step's tasks, and the tasks each takes at once (`None`: all of its share)."""

    devices: int
    chunk: int | None


def choose(experiment: Experiment, inner_steps: int) -> Layout:
    """The given layout, completed: heavy tasks one at a time on every core, light ones all together on one."""
    heavy = _work(experiment, inner_steps) >= _HEAVY
    devices = experiment.devices or (min(cores(), experiment.meta_batch) if heavy and _on_cpu() else 1)
    return Layout(devices, experiment.chunk or (1 if heavy and _on_cpu() else None))


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare(layout: Layout, *, asked: bool) -> int:
    """Makes as many host devices as the layout wants, and returns how many to use.

    New devices can only be made before JAX has started. After that a number the user `asked` for stands, for
    `make_mesh` to say what is wrong with it; one that was chosen here gives way.
    """
    if layout.devices > 1 and _on_cpu():
        try:
            jax.config.update("jax_num_cpu_devices", layout.devices)
        except RuntimeError:
            return layout.devices if asked else min(layout.devices, len(jax.devices()))
    return layout.devices


def _work(experiment: Experiment, inner_steps: int) -> int:
    if experiment.has_images:
        return _HEAVY
    widths = experiment.hidden or (40, 40)
    products = sum(a * b for a, b in itertools.pairwise(widths))
    return products * max(experiment.shots, experiment.queries) * (inner_steps + 1)


def _on_cpu() -> bool:
    asked = jax.config.jax_platforms  # type: ignore[attr-defined]
    return asked.startswith("cpu") if asked else not entry_points(group="jax_plugins")
