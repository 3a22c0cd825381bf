"""Which layout is fastest on this machine: measured once for the sizes of an experiment, and kept in fewstep's cache.

Host devices can only be made before JAX starts, so that each layout is tried in a process of its own:
`python -m fewstep.machine.autotune` reads an experiment from stdin and prints the steps per second.
"""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable

from fewstep.data import folders
from fewstep.experiments import Experiment
from fewstep.files import cache, read_json, write_json
from fewstep.machine import layout
from fewstep.machine.compilation import keep_compiled, machine
from fewstep.machine.devices import Layout, cores

LONG = 5000  # steps from which a minute of trying is worth it
_SECONDS = 1.5
_LONGEST = 120.0  # seconds that one layout is tried, compiling included
_CHUNKS = (1, 2, 4)
# What does not change how long a step takes.
_IDLE = (
    "seed", "steps", "log_every", "validate_every", "validation_tasks", "patience", "keep", "classes", "schema",
    "source", "split", "split_seed", "skip_bad", "devices", "chunk", "outer_lr", "inner_lr", "schedule",
    "validation_ways",
)  # fmt: skip


def fastest(experiment: Experiment, say: Callable[[str], None]) -> Layout:
    """The layout of an experiment: the one it names, else for long trainings of heavy tasks the fastest of a few."""
    plain = layout.choose(experiment)
    chosen = experiment.devices > 0 or experiment.chunk > 0
    if chosen or plain.chunk is None or experiment.steps < LONG or not experiment.has("meta_batch"):
        return plain
    file = cache() / "layouts.json"
    measurements = read_json(file) or {}
    if _key(experiment) not in measurements:
        say("Trying how to spread tasks over this machine: once for such a network, about a minute.")
        rates = {f"{p.devices} {p.chunk or 0}": _rate(experiment, p) for p in candidates(experiment, plain)}
        measurements[_key(experiment)] = rates
        write_json(file, measurements)
    tried = {name: float(rate) for name, rate in measurements[_key(experiment)].items() if rate}
    if not tried:
        return plain
    devices, chunk = map(int, max(tried, key=tried.__getitem__).split())
    return Layout(devices, chunk or None)


def candidates(experiment: Experiment, plain: Layout) -> list[Layout]:
    """Every core with a few tasks at once, and one device; with all tasks at once only of what is not an image, which
    would take memory without bounds."""
    share = -(-experiment.meta_batch // plain.devices)
    spread = [Layout(plain.devices, chunk) for chunk in _CHUNKS if chunk <= share]
    alone = [Layout(1, 1)] if plain.devices > 1 else []
    return [*spread, *alone, *([] if experiment.kind.heavy else [Layout(1, None)])]


def _key(experiment: Experiment) -> str:
    sizes = {name: value for name, value in experiment.settings().items() if name not in _IDLE}
    return hashlib.sha256(f"{machine()} {cores()} {sorted(sizes.items())}".encode()).hexdigest()[:16]


def _rate(experiment: Experiment, places: Layout) -> float | None:
    """Steps per second with a layout, in a process of its own; nothing if that fails."""
    share = places.chunk or experiment.meta_batch
    text = experiment.replace(devices=places.devices, chunk=share).to_json()
    command = [sys.executable, "-m", "fewstep.machine.autotune"]
    places_of_data = os.environ | {"FEWSTEP_DATA": str(folders()[0])} if len(folders()) > 1 else dict(os.environ)
    try:
        done = subprocess.run(command, input=text, env=places_of_data, capture_output=True, text=True, timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        return None
    return float(done.stdout) if done.returncode == 0 else None


def _measure() -> None:
    from fewstep.machine.steps import make_steps

    keep_compiled()
    _, take = make_steps(Experiment.from_json(sys.stdin.read()))
    take(1)
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < _SECONDS:
        take(2)
        steps += 2
    print(steps / (time.perf_counter() - begin))


if __name__ == "__main__":
    _measure()
