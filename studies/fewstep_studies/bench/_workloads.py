"""What is measured: a few problems, each the same for every system."""

import dataclasses
from typing import Any, Literal


@dataclasses.dataclass(frozen=True)
class Workload:
    """A meta-step of MAML or MT-net: sizes of the network, the tasks and the inner loop.

    `devices` and `chunk` lay fewstep's out, as in training; `remat` recomputes inner steps in the backward pass. `seed`
    draws weights and tasks. The outer step is small, because the time should not depend on where a training goes.
    """

    name: str
    kind: Literal["regression", "images"]  # a key of `_problem.FAMILIES`; the other systems get it as JSON
    tasks: int
    inner_steps: int
    method: str = "maml"
    inner_lr: float = 0.01
    outer_lr: float = 1e-5
    shots: int = 10
    queries: int = 10
    ways: int = 5
    filters: int = 64
    hidden: tuple[int, ...] = (40, 40)
    devices: int = 0
    chunk: int = 0
    remat: bool = False
    seed: int = 0

    def replace(self, **changes: Any) -> "Workload":
        """The same with changes."""
        return dataclasses.replace(self, **changes)


def sine(inner_steps: int, tasks: int = 25) -> Workload:
    """The sine waves of MAML: 10 points, a perceptron 1-40-40-1."""
    rate = 0.01 if inner_steps == 1 else 0.001  # the larger one diverges in more steps from a He initialization
    return Workload(f"sine, {_count(inner_steps)}", "regression", tasks, inner_steps, inner_lr=rate)


def omniglot(inner_steps: int, tasks: int = 32, ways: int = 5) -> Workload:
    """Omniglot with one image per class, four convolutions of 64 filters."""
    name = f"omniglot {ways}-way, {_count(inner_steps)}"
    return Workload(name, "images", tasks, inner_steps, inner_lr=0.4, shots=1, queries=1, ways=ways)


def _count(steps: int) -> str:
    return "1 inner step" if steps == 1 else f"{steps} inner steps"


WORKLOADS = {
    "sine-1": sine(1), "sine-5": sine(5), "omniglot-1": omniglot(1), "omniglot-5": omniglot(5),
    "omniglot-20way": omniglot(1, tasks=16, ways=20),
}  # fmt: skip
