"""The devices of a machine: how many there are, and how a layout uses them."""

import os
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import NamedTuple

import jax


class Layout(NamedTuple):
    """The devices that share a step's tasks, and the tasks each takes at once (`None`: all of its share)."""

    devices: int
    chunk: int | None


def cores() -> int:
    """How many cores this process may use."""
    return len(usable_cores())


def usable_cores() -> set[int]:
    """The cores this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def on_cpu() -> bool:
    """Whether the devices are host devices, without starting JAX."""
    platforms = jax.config.jax_platforms  # type: ignore[attr-defined]
    accelerators = bool(entry_points(group="jax_plugins")) or find_spec("libtpu") is not None
    return platforms.startswith("cpu") if platforms else not accelerators
