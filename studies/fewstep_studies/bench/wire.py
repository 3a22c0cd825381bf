"""How to speak to a measured system: one JSON object per line, on stdin and stdout. Needs NumPy only.

A system is made from a problem: the spec, the network's first weights by path, and the tasks. Every system gets the
same. Peers, which another Python runs, import this file as `wire`.
"""

import contextlib
import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat, TextIO

if TYPE_CHECKING:
    import numpy


class System(NamedTuple):
    """What is measured: `check()` gives the mean query loss and its gradient by path, `take(n)` takes n meta-steps and
    waits for them, `adapt()` learns the first task alone and predicts its query. `about` describes it."""

    check: Callable[[], tuple[SupportsFloat, dict[str, "numpy.ndarray"]]]
    take: Callable[[int], None]
    adapt: Callable[[], object]
    about: str = ""


class Problem:
    """The spec, the weights, and support and query of all tasks, as arrays with the tasks in front."""

    def __init__(self, path: str) -> None:
        import numpy

        with numpy.load(path, allow_pickle=False) as arrays:
            self.spec: dict[str, Any] = json.loads(str(arrays["spec"]))
            self.weights = {name[8:]: arrays[name] for name in arrays.files if name.startswith("weights/")}
            self.support_x, self.support_y = arrays["support_x"], arrays["support_y"]
            self.query_x, self.query_y = arrays["query_x"], arrays["query_y"]


def speak(make: Callable[[Problem], System]) -> None:
    """Makes the system of the problem that the command line names, then answers until stdin ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is not an answer
    base, begin = memory("VmRSS"), time.perf_counter()
    system = make(Problem(sys.argv[1]))
    system.take(1)
    _write(answers, {"about": system.about, "compile_s": time.perf_counter() - begin, "base_mb": base})
    for line in sys.stdin:
        _write(answers, _answer(system, **json.loads(line)))


def _answer(system: System, do: str, n: int = 0, to: str = "") -> Mapping[str, object]:
    if do == "check":
        return _check(system, to)
    if do == "steps":
        return {"seconds": _seconds(system.take, n)}
    if do == "adapt":
        system.adapt()
        return {"seconds": [_seconds(system.adapt) for _ in range(n)]}
    if do == "memory":
        _forget_peak()
        system.take(n)
        return {"peak_mb": memory("VmHWM")}
    raise ValueError(f"unknown request {do!r}")


def _check(system: System, file: str) -> dict[str, float]:
    import numpy

    loss, gradient = system.check()
    numpy.savez(file, **gradient)  # type: ignore[arg-type]
    return {"loss": float(loss)}


def _seconds(run: Callable[..., object], *arguments: int) -> float:
    begin = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - begin


def _write(file: TextIO, answer: Mapping[str, object]) -> None:
    file.write(json.dumps(answer) + "\n")
    file.flush()


def memory(which: str) -> float | None:
    """The process's memory in MB: `VmRSS` now, `VmHWM` at its peak; `None` where Linux does not report it."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) / 1000 for line in file if line.startswith(which))
    except (OSError, StopIteration):
        return None


def _forget_peak() -> None:
    """Resets the peak, so that compiling does not count; memory that was freed since is first given back."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # of other C libraries
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def versions(*packages: str) -> str:
    """The installed versions of packages, as `higher 0.2.1, torch 2.0`."""
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in packages)


def threads() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
