"""The measured systems: each a process of its own, which answers one question at a time."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from fewstep._errors import FewstepError
from fewstep.files import JSON

_HERE = Path(__file__).resolve().parent
PEERS = _HERE.parents[2] / "benchmarks" / "peers"  # in a source checkout
OURS = "fewstep"


class System(NamedTuple):
    """A system by name: a peer's script with its words, and the modules it needs; or ours, with what differs from the
    workload's MAML."""

    name: str
    script: str = ""
    words: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    changes: tuple[tuple[str, str | bool | int], ...] = ()

    def command(self, peers_python: Path | None) -> list[str]:
        """The command that starts it, but for the problem."""
        if not self.script:
            return [sys.executable, "-m", "fewstep_studies.bench._ours"]
        return [str(peers_python), str(PEERS / self.script)]


SYSTEMS = (
    System(OURS),
    System("fewstep MT-net", changes=(("method", "mtnet"),)),
    System("torch.func vmap", "torch_func.py", needs=("torch",)),
    System("torch.compile", "torch_func.py", ("--compile",), needs=("torch",)),
    System("PyTorch loop", "torch_func.py", ("--loop",), needs=("torch",)),
    System("higher", "torch_higher.py", needs=("torch", "higher")),
    System("torchopt", "torch_torchopt.py", needs=("torch", "torchopt")),
    System("jax-meta", "jax_meta_maml.py", needs=("jax_meta",)),
)
VMAP = SYSTEMS[2]
REMAT = System("fewstep, remat", changes=(("remat", True),))


class SystemFailed(Exception):
    """A system ended instead of answering; the message is the last line it wrote."""


class Ready(NamedTuple):
    """A system's first answer: what it is, its seconds to compile, and its memory before."""

    about: str
    compile_s: float
    base_mb: float | None


class Process:
    """A running system; its questions are those of `wire`."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._process, self._errors = process, errors
        self.ready = Ready(**self._answer())

    def check(self, file: Path) -> float:
        """The mean query loss; the gradient is written into a file."""
        return self._ask("check", to=str(file))["loss"]

    def steps(self, count: int) -> float:
        """Seconds that so many meta-steps take."""
        return self._ask("steps", n=count)["seconds"]

    def adapt(self, count: int) -> list[float]:
        """Seconds of each of so many calls that learn one task."""
        return self._ask("adapt", n=count)["seconds"]

    def memory(self, count: int) -> float | None:
        """The peak of memory in MB during so many meta-steps."""
        return self._ask("memory", n=count)["peak_mb"]

    def _ask(self, do: str, **arguments: int | str) -> dict[str, JSON]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: the answer says why
        return self._answer()

    def _answer(self) -> dict[str, JSON]:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return json.loads(line)
        self._errors.seek(0)
        lines = self._errors.read().splitlines()
        errors = [line for line in lines if re.match(r"\w[\w.]*(Error|Exception|Exit)\b", line)]
        raise SystemFailed(errors[-1][:200] if errors else f"it ended with code {self._process.wait()}")


@contextmanager
def start(system: System, problem: Path, peers_python: Path | None) -> Iterator[Process]:
    """Starts a system and ends it. Raises `SystemFailed` if it does not come to its first answer."""
    paths = [str(_HERE), *filter(None, [os.environ.get("PYTHONPATH")])] if system.script else None  # peers import wire
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)} if paths else None
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*system.command(peers_python), str(problem), *system.words], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=errors, text=True, env=environment,
        )  # fmt: skip
        try:
            yield Process(process, errors)
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def is_installed(system: System, peers_python: Path | None) -> bool:
    """Whether the peers' Python has what a system needs; ours is always there."""
    if not system.script:
        return True
    if peers_python is None or not peers_python.exists() or not PEERS.is_dir():
        return False
    if not os.access(peers_python, os.X_OK) or peers_python.is_dir():
        raise FewstepError(f"{peers_python} is not a Python. Set `peers`, such as to .venv-bench/bin/python.")
    search = f"import importlib.util as u, sys; sys.exit(not all(u.find_spec(n) for n in {list(system.needs)!r}))"
    return subprocess.run([peers_python, "-c", search], capture_output=True).returncode == 0


def how_to_install(peers_python: Path | None) -> str:
    """What is missing where a system is not installed, and what to do."""
    if not PEERS.is_dir():
        return "their scripts, benchmarks/peers, are in fewstep's source checkout only. Run `make bench` there."
    present = peers_python is not None and peers_python.exists()
    where = f"{peers_python} lacks them" if present else "no Python with the other libraries is there"
    return f"{where}. `make bench` makes one; or set `peers` to yours."
