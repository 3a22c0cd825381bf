"""Reads the command line, runs a command, and turns a user's mistake into one clear message and exit code 2."""

import os
import sys
from collections.abc import Sequence

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._commands import commands
from fewstep.cli._parse import parse
from fewstep.machine import interrupt
from fewstep.machine.compilation import keep_compiled
from fewstep.runs import version


def main(args: Sequence[str] | None = None) -> int:
    """Runs `fewstep`; returns the exit code."""
    words = sys.argv[1:] if args is None else list(args)
    if words[:1] == ["--version"]:
        print(f"fewstep {version()}")
        return 0
    try:
        interrupt.release()  # from here on Ctrl-C is ours to answer
        return parse(commands(), words)()
    except FewstepError as error:
        _show.error(str(error))
        return 2
    except KeyboardInterrupt:
        _show.error("Stopped at once. What the last checkpoint holds is safe; run the same command to go on.")
        return interrupt.CODE


def script() -> None:
    """The entry point of the installed command."""
    keep_compiled()
    if os.environ.get("NO_COLOR"):
        os.environ["TERM"] = "dumb"  # where rich and tyro use no escape sequence at all, colors being only some of them
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
