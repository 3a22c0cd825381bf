"""Reads the command line, runs a command, and turns a user's mistake into one clear message and exit code 2."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import tyro

from fewstep._errors import FewstepError
from fewstep.cli import (
    _adapt,
    _bench,
    _data,
    _eval,
    _export,
    _inspect,
    _launch,
    _layerwise,
    _play,
    _reproduce,
    _serve,
    _show,
    _train,
)
from fewstep.runs.compiled import keep_compiled
from fewstep.runs.experiment import unchecked

COMMANDS: dict[str, Any] = {
    "train": _train.Train,
    "eval": _eval.Eval,
    "adapt": _adapt.Adapt,
    "inspect": _inspect.Inspect,
    "export": _export.Export,
    "reproduce": _reproduce.Reproduce,
    "bench": _bench.Bench,
    "data": _data.Data,
    "layerwise": _layerwise.Layerwise,
    "launch": _launch.Launch,
    "serve": _serve.Serve,
    "play": _play.Play,
}


def main(args: Sequence[str] | None = None) -> int:
    """Runs `fewstep`; returns the exit code."""
    with unchecked():
        command = tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="fewstep",
            description="Learn from many small tasks to learn the next one in a few gradient steps.",
            args=_launch.with_separator(sys.argv[1:] if args is None else args),
            config=(tyro.conf.OmitArgPrefixes,),
        )
    try:
        return command()
    except FewstepError as error:
        _show.error(str(error))
        return 2
    except KeyboardInterrupt:
        _show.error("Stopped at once. What the last checkpoint holds is safe; run the same command to go on.")
        return 130


def script() -> None:
    """The entry point of the installed command."""
    keep_compiled()
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
