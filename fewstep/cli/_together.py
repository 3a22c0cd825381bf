"""A command as one of several processes: joins the others, and ends with them whatever happens to one."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import jax

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.machine import distributed
from fewstep.machine.cluster import Place, local_device
from fewstep.machine.devices import on_cpu

T = TypeVar("T")
LAUNCHED = "FEWSTEP_LAUNCHED"  # set by `fewstep launch`, which says itself what has happened
LOST = 3  # exit code: another process of the training is gone
HEARTBEAT_SECONDS = 30
_LINGER_SECONDS = 3.0
_speakers: list["subprocess.Popen[bytes]"] = []


def together(place: Place, seconds: float, work: Callable[[], T]) -> T:
    """What the work of all processes gives, or the end of this process, with one clear line.

    Does not return after a failure: the runtime would wait at its exit for processes that are gone.
    """
    with _no_stdout():
        _join(place, seconds)
        _speak_if_killed() if LAUNCHED not in os.environ else _stop_if_orphaned()
        try:
            result = work()
        except FewstepError as error:
            _end(2, str(error))
        except KeyboardInterrupt:
            _end(130, "Stopped at once. What the last checkpoint holds is safe; run the same command to go on.")
        except Exception as error:
            if not distributed.lost(error):
                traceback.print_exc()
                _end(1, f"{type(error).__name__}: {error}")
            _end_lost()
        jax.distributed.shutdown()
        _hush()
    return result


def _join(place: Place, seconds: float) -> None:
    """Waits for the other processes. The runtime would end a wait that is too long by aborting with a page of its log,
    so a watch ends it before."""
    coordinator, processes, process = place
    if process == 0 and coordinator is not None:
        _check_free(coordinator)
    # The runtime's own answer to a request to end would replace that of a training, which saves first.
    jax.config.update("jax_enable_preemption_service", False)
    watch = threading.Timer(seconds, _give_up, (place, seconds))
    watch.daemon = True
    watch.start()
    try:
        jax.distributed.initialize(
            coordinator, processes, process,
            cluster_detection_method=None if None in place else "deactivate",
            local_device_ids=None if None in place or on_cpu() else local_device(os.environ),
            initialization_timeout=int(seconds) + 60,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS, shutdown_timeout_seconds=60,
        )  # fmt: skip
    except (RuntimeError, ValueError, TypeError) as error:
        raise FewstepError(
            f"Cannot join the other processes: {str(error).splitlines()[0][:300]} Give --coordinator HOST:PORT, "
            "--processes and --process, or --coordinator none to train alone."
        ) from None
    finally:
        watch.cancel()


def _check_free(coordinator: str) -> None:
    port = int(coordinator.rpartition(":")[2])
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", port))
        except OSError as error:
            raise FewstepError(
                f"Process 0 cannot listen at {coordinator}: {error.strerror}. Choose another port, the same for all "
                "processes."
            ) from None


def _give_up(place: Place, seconds: float) -> None:
    coordinator, processes, process = place
    if coordinator is None or process == 0 or _answers(coordinator):
        what = f"Not all of the {processes or ''} processes came within {seconds:g} s".replace("the  ", "the ")
        fix = "Start all of them, with the same --coordinator and --processes and each with its own --process"
    else:
        what = f"No process 0 answers at {coordinator}: waited {seconds:g} s"
        fix = "Start it, check host and port, and that no firewall is between"
    _show.error(f"{what}. {fix}; or wait longer: --wait-seconds.")
    _exit(2)


def _answers(coordinator: str) -> bool:
    host, _, port = coordinator.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2):
            return True
    except OSError:
        return False


def _end_lost() -> None:
    if (reason := distributed.refused()) is not None:
        _end(2, reason)
    if LAUNCHED not in os.environ:
        _show.error(
            f"Process {distributed.index()} lost another process of the training and ends. Start all of them again "
            "with the same command: the run goes on from its last checkpoint."
        )
    distributed.leave()
    _exit(LOST)


def _end(code: int, message: str) -> None:
    """Says why, informs the others, and gives them a moment to hear it before the store they hear it from is gone."""
    number = distributed.index()
    if LAUNCHED not in os.environ or number == 0:
        _show.error(message)
    distributed.refuse(message)
    gone, until = distributed.leave(), time.monotonic() + _LINGER_SECONDS
    while number == 0 and gone < distributed.count() and time.monotonic() < until:
        time.sleep(0.05)
        gone = distributed.leave()
    _exit(code)


def _speak_if_killed() -> None:
    """Starts a shell that says what has happened if this process ends without a word, by a signal or the runtime."""
    if shell := shutil.which("sh"):
        line = (
            f"fewstep: Process {distributed.index()} of {distributed.count()} was killed, or ended because another "
            "process is gone. Start all of them again with the same command: the run goes on from its last checkpoint."
        )
        script = f"trap '' INT TERM HUP; read word || echo '{line}' >&2"
        _speakers.append(subprocess.Popen([shell, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))


def _hush() -> None:
    for speaker in _speakers:
        speaker.communicate(b"quiet\n")


def _stop_if_orphaned() -> None:
    """Stops as by Ctrl-C when the launcher is gone."""

    def watch() -> None:
        while os.getppid() == int(os.environ[LAUNCHED]):
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


def _exit(code: int) -> None:
    _hush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def _no_stdout() -> Iterator[None]:
    """Results alone go to stdout, and the runtime's collectives print there when they connect."""
    sys.stdout.flush()
    stdout, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(nothing)
