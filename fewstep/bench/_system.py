"""A measured system: a process of its own that is asked, one question at a time."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fewstep._errors import FewstepError

PEERS = Path(__file__).resolve().parent / "peers"
OURS = "fewstep"


class Kind(NamedTuple):
    """A system by name: the script of a peer with its words, and the modules it needs; or ours, with what differs from
    the workload's MAML."""

    name: str
    script: str = ""
    words: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    changes: tuple[tuple[str, Any], ...] = ()

    def command(self, peers_python: Path | None) -> list[str]:
        """The command that starts it, but for the problem."""
        if not self.script:
            return [sys.executable, "-m", "fewstep.bench._ours"]
        return [str(peers_python), str(PEERS / self.script)]


KINDS = (
    Kind(OURS),
    Kind("fewstep MT-net", changes=(("method", "mtnet"),)),
    Kind("torch.func vmap", "torch_func.py", needs=("torch",)),
    Kind("torch.compile", "torch_func.py", ("--compile",), needs=("torch",)),
    Kind("PyTorch loop", "torch_func.py", ("--loop",), needs=("torch",)),
    Kind("higher", "torch_higher.py", needs=("torch", "higher")),
    Kind("torchopt", "torch_torchopt.py", needs=("torch", "torchopt")),
    Kind("jax-meta", "jax_meta_maml.py", needs=("jax_meta",)),
)
VMAP = KINDS[2]
REMAT = Kind("fewstep, remat", changes=(("remat", True),))


class Failed(Exception):
    """A system ended where it was to answer; the message is the last line it wrote."""


class Running:
    """A started system; `first` is what it told when it was ready."""

    def __init__(self, process: subprocess.Popen[str], errors: Any) -> None:
        self._process, self._errors = process, errors
        self.first = self._answer()

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        """The answer to a question of `wire`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: the answer says why
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return json.loads(line)
        self._errors.seek(0)
        said = [
            text for text in self._errors.read().splitlines() if re.match(r"\w[\w.]*(Error|Exception|Exit)\b", text)
        ]
        raise Failed(said[-1][:200] if said else f"it ended with code {self._process.wait()}")


@contextmanager
def started(kind: Kind, problem: Path, peers_python: Path | None) -> Iterator[Running]:
    """Starts a system and ends it. Raises `Failed` if it does not come to its first answer."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*kind.command(peers_python), str(problem), *kind.words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=errors, text=True,
        )  # fmt: skip
        try:
            yield Running(process, errors)
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def present(kind: Kind, peers_python: Path | None) -> bool:
    """Whether the peers' Python has what a system needs; ours always is there."""
    if not kind.script:
        return True
    if peers_python is None or not peers_python.exists():
        return False
    if not os.access(peers_python, os.X_OK) or peers_python.is_dir():
        raise FewstepError(f"{peers_python} is not a Python. Name one with --peers, such as .venv-bench/bin/python.")
    looking = f"import importlib.util as u, sys; sys.exit(not all(u.find_spec(n) for n in {list(kind.needs)!r}))"
    return subprocess.run([peers_python, "-c", looking], capture_output=True).returncode == 0
