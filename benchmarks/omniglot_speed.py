"""One meta-step on Omniglot (5-way 1-shot, 32 tasks, one inner step, conv4-64): ours against PyTorch's, in turns.

python benchmarks/omniglot_speed.py --torch-python PATH --data-dir FOLDER

PATH is a Python that has torch (the CPU build will do). Ours draw their tasks inside the step; PyTorch's are drawn
before. Compiling is not timed. The result goes to benchmarks/results/omniglot-speed.json.
"""

import dataclasses
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import jax
import tyro

from fewstep import Experiment, data
from fewstep.machine.provenance import commit
from fewstep.machine.steps import make_steps

HERE = Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Speed:
    torch_python: Path
    """A Python that has torch."""
    data_dir: Path
    """Folder with omniglot."""
    steps: int = 20
    """Steps of a turn."""
    turns: int = 9
    """Turns of each."""


def ours(method: str) -> Callable[[int], float]:
    """A function that takes steps of a method, laid out as `fewstep train` does, and tells the seconds."""
    _, take = make_steps(Experiment(method, "omniglot"))
    take(1)

    def run(steps: int) -> float:
        begin = time.perf_counter()
        take(steps)
        return time.perf_counter() - begin

    return run


def theirs(python: Path) -> tuple[Callable[[int], float], str]:
    """The same for PyTorch, in a process of its own, and its version and threads."""
    process = subprocess.Popen(
        [python, HERE / "torch_maml.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    writer, reader = process.stdin, process.stdout
    about = reader.readline().strip()

    def run(steps: int) -> float:
        writer.write(f"{steps}\n")
        writer.flush()
        return float(reader.readline())

    return run, about


def main(speed: Speed) -> None:
    data.look_in(speed.data_dir)
    torch, about = theirs(speed.torch_python)
    systems = {"fewstep MAML": ours("maml"), "fewstep MT-net": ours("mtnet"), "torch.func.vmap MAML": torch}
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(speed.turns):
        for name, run in systems.items():
            seconds[name].append(run(speed.steps) / speed.steps)
    rows: list[dict[str, Any]] = []
    for name, found in seconds.items():
        against = {
            other: median(a / b for a, b in zip(found, seconds[other], strict=True))
            for other in systems
            if other != name
        }
        rows.append({"system": name, "seconds": median(found), "lowest": min(found), "highest": max(found), **against})
        print(json.dumps(rows[-1]))
    result = {
        "workload": "Omniglot 5-way 1-shot, 32 tasks, one inner step, conv4-64, second order",
        "rows": rows, "torch": about, "jax": jax.__version__, "cores": os.cpu_count(), "commit": commit(),
        "command": "python benchmarks/omniglot_speed.py --torch-python PATH --data-dir FOLDER",
    }  # fmt: skip
    (HERE / "results" / "omniglot-speed.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Speed, description=__doc__))
