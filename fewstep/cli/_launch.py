"""`fewstep launch`: the same command in several processes on this machine, which train one run together."""

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import tyro

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT
from fewstep.cli._together import LAUNCHED, LOST
from fewstep.machine import cluster
from fewstep.machine.devices import usable_cores
from fewstep.machine.distributed import DEVICES

Child: TypeAlias = "subprocess.Popen[bytes]"
GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05
_VALUED = ("--processes", "--devices-per-process")


@dataclasses.dataclass(frozen=True)
class Launch:
    """Run a training in several processes on this machine, its tasks spread over all of them.

    Examples of use:
      fewstep launch --processes 2 train mtnet sinusoid --meta-batch 32 --run runs/x
      fewstep launch --processes 4 --devices-per-process 2 -- train mtnet omniglot --ways 5
    """

    command: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="COMMAND")]
    """What to run, as without `launch`: train METHOD TASKS and its options."""
    processes: Annotated[int | None, NO_HINT] = None
    """How many processes (required)."""
    devices_per_process: Annotated[int | None, NO_HINT] = None
    """Devices of each process (default: of host devices, chosen by the size of a task and the process's share of the
    cores; of others, 1)."""

    def __call__(self) -> int:
        count = self._checked()
        with tempfile.TemporaryDirectory(prefix="fewstep-launch-") as folder, _signals() as came:
            logs = [Path(folder) / str(number) for number in range(count)]
            children = _start(self.command, self.devices_per_process, logs)
            try:
                ended_by_us = _watch(children, came)
            finally:
                for child in children:
                    child.kill()
                codes = [child.wait() for child in children]
            return _conclude(codes, ended_by_us, bool(came), logs)

    def _checked(self) -> int:
        example = "fewstep launch --processes 2 train mtnet sinusoid --run runs/x"
        if self.processes is None or self.processes < 1:
            fact = (
                "launch is not told how many processes"
                if self.processes is None
                else f"--processes is {self.processes}"
            )
            raise FewstepError(f"{fact}. Give at least 1: {example}")
        if self.devices_per_process is not None and self.devices_per_process < 1:
            raise FewstepError(f"--devices-per-process is {self.devices_per_process}. It must be at least 1.")
        if not self.command:
            raise FewstepError(f"launch is given no command. Add one: {example}")
        if self.command[0] != "train":
            raise FewstepError(f"launch runs train, not {self.command[0]!r}: other commands are for a single process.")
        return self.processes


def _start(command: Sequence[str], devices: int | None, logs: Sequence[Path]) -> list[Child]:
    """Starts one process for each log; process 0 shows what it says, and the logs keep what the others say."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    cores, children = sorted(usable_cores()), []
    share = len(cores) // len(logs)
    for number, log in enumerate(logs):
        with log.open("w") as stderr:
            child = subprocess.Popen(
                [sys.executable, "-m", "fewstep", *command],
                env=os.environ | _environment(address, len(logs), number, devices),
                stdin=subprocess.DEVNULL,
                stdout=None if number == 0 else subprocess.DEVNULL,
                stderr=None if number == 0 else stderr,
                process_group=0,  # Ctrl-C comes to us alone, and we pass it on
            )
        children.append(child)
        if share and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(child.pid, cores[number * share : (number + 1) * share])
    return children


def _environment(address: str, count: int, number: int, devices: int | None) -> dict[str, str]:
    each = devices or 1
    variables = {
        cluster.COORDINATOR: address,
        cluster.PROCESSES: str(count),
        cluster.PROCESS: str(number),
        LAUNCHED: str(os.getpid()),
        "JAX_COORDINATOR_BIND_ADDRESS": address,  # nobody on other machines is to reach it
        "JAX_LOCAL_DEVICE_IDS": ",".join(str(number * each + device) for device in range(each)),
    }
    return variables | ({DEVICES: str(devices)} if devices else {})


def with_separator(args: Sequence[str]) -> list[str]:
    """The arguments of `launch` with `--` before the command, whose options are not ours."""
    args = list(args)
    number = 1
    while args[:1] == ["launch"] and number < len(args) and args[number] != "--":
        if not args[number].startswith("-"):
            return [*args[:number], "--", *args[number:]]
        number += 2 if args[number] in _VALUED else 1
    return args


def _watch(children: Sequence[Child], came: list[int]) -> set[int]:
    """Waits until all have ended; ends the rest a moment after one has failed. Says which ones we ended."""
    passed_on, until, ours = 0, float("inf"), set[int]()
    while any(child.poll() is None for child in children):
        if len(came) > passed_on:
            passed_on = len(came)
            for child in children:
                child.send_signal(signal.SIGKILL if passed_on > 1 else came[0])
        if until == float("inf") and any(child.poll() for child in children):
            until = time.monotonic() + GRACE_SECONDS
        if time.monotonic() > until:
            ours |= {number for number, child in enumerate(children) if child.poll() is None}
            for child in children:
                child.kill()
        time.sleep(_POLL_SECONDS)
    return ours


def _conclude(codes: list[int], ours: set[int], stopped: bool, logs: Sequence[Path]) -> int:
    """The exit code of all, and a line about the process that failed, unless process 0 has said it."""
    if stopped and any(codes):
        return 130
    if codes[0] in (2, 130) or not any(codes):
        return codes[0]
    number, how = _guilty(codes, ours)
    _show.error(
        f"Process {number} of {len(codes)} {how}, so the others were ended too. Run the same command to go on from the "
        "last checkpoint." + _last_words(logs[number])
    )
    return 1


def _guilty(codes: list[int], ours: set[int]) -> tuple[int, str]:
    """Which process failed, and how: not one that lost another, whether it could say so or the runtime aborted it."""
    for number, code in enumerate(codes):
        if code not in (0, LOST, -signal.SIGABRT) and number not in ours:
            name = signal.Signals(-code).name if code < 0 else ""
            return number, f"was ended by signal {-code} ({name})" if name else f"failed with exit code {code}"
    return min(ours, default=codes.index(next(filter(None, codes)))), "no longer answered"


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f" It last said: {lines[-1][:300]}" if lines else ""


@contextmanager
def _signals() -> Iterator[list[int]]:
    """A list of the requests to end that have come."""
    came: list[int] = []
    note = lambda number, frame: came.append(number)
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
