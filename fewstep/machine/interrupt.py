"""Ctrl-C while the command line is still importing: one line and exit code 130, no traceback.

Imports take a second or two, and the package's own run before any function of the command line can. So the package
imports this module first. Only `fewstep` and `python -m fewstep` are guarded, until their command begins: in a user's
own Python nothing changes.
"""

import os
import signal
import sys
from types import FrameType

CODE = 130  # what shells give for Ctrl-C
_LINE = b"fewstep: Stopped before it began. Nothing was changed.\n"


def _guard() -> None:
    """Ends the process quietly on Ctrl-C, if it is the command line's; who ignores Ctrl-C, as `nohup` does, still does.

    The process ends inside the handler: an exception would be swallowed, and printed, wherever an import runs a
    callback.
    """
    if _is_command_line() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def release() -> None:
    """Gives Ctrl-C back to Python."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, _LINE)
    os._exit(CODE)


def _is_command_line() -> bool:
    words = getattr(sys, "argv", None) or [""]  # a program with Python inside may have none
    if words[0] == "-m":  # what stands there while Python looks for the module
        return sys.orig_argv[-len(words)].removeprefix("-m") == "fewstep"
    return os.path.basename(words[0]).removesuffix(".exe") == "fewstep"


_guard()
