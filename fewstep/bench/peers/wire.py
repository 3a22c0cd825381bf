"""How a measured system is spoken to: one JSON object a line, on stdin and stdout. Needs NumPy only.

A system is made of a problem: the spec, the network's first weights by path, and the tasks. Every system gets the same.
"""

import contextlib
import ctypes
import json
import os
import sys
import time


class System:
    """What is measured: `check()` gives the mean query loss and its gradient by path, `take(n)` takes n meta-steps and
    waits for them, `adapt()` learns the first task alone and predicts its query. `about` tells what it is."""

    def __init__(self, check, take, adapt, about=""):
        self.check, self.take, self.adapt, self.about = check, take, adapt, about


class Problem:
    """The spec, the weights, and support and query of all tasks, as arrays with the tasks in front."""

    def __init__(self, path):
        import numpy

        with numpy.load(path, allow_pickle=False) as held:
            self.spec = json.loads(str(held["spec"]))
            self.weights = {name[8:]: held[name] for name in held.files if name.startswith("weights/")}
            self.support_x, self.support_y = held["support_x"], held["support_y"]
            self.query_x, self.query_y = held["query_x"], held["query_y"]


def speak(make):
    """Makes the system of the problem that the command line names, then answers until stdin ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is not an answer
    base, begin = memory("VmRSS"), time.perf_counter()
    system = make(Problem(sys.argv[1]))
    system.take(1)
    tell(answers, {"about": system.about, "compile_s": time.perf_counter() - begin, "base_mb": base})
    for line in sys.stdin:
        tell(answers, _answer(system, json.loads(line)))


def _answer(system, asked):
    if asked["do"] == "check":
        return _check(system, asked["to"])
    if asked["do"] == "steps":
        return {"seconds": _seconds(system.take, asked["n"])}
    if asked["do"] == "adapt":
        system.adapt()
        return {"seconds": [_seconds(system.adapt) for _ in range(asked["n"])]}
    if asked["do"] == "memory":
        _forget_peak()
        system.take(asked["n"])
        return {"peak_mb": memory("VmHWM")}
    raise ValueError(f"unknown request {asked}")


def _check(system, to):
    import numpy

    loss, gradient = system.check()
    numpy.savez(to, **gradient)
    return {"loss": float(loss)}


def _seconds(run, *args):
    begin = time.perf_counter()
    run(*args)
    return time.perf_counter() - begin


def tell(file, answer):
    """Writes an answer."""
    file.write(json.dumps(answer) + "\n")
    file.flush()


def memory(which):
    """The process's memory in MB: `VmRSS` what it holds, `VmHWM` the most it held; nothing where Linux does not say."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) / 1000 for line in file if line.startswith(which))
    except (OSError, StopIteration):
        return None


def _forget_peak():
    """Lets the peak begin anew, so that compiling does not count; what was freed since is first given back."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # of other C libraries
        ctypes.CDLL(None).malloc_trim(0)
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def versions(*packages):
    """The installed versions of packages, as `higher 0.2.1, torch 2.0`."""
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in packages)


def threads():
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
