"""Where each command is: ours, and those that installed packages add by entry points; imported when it is named."""

import dataclasses
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points

from fewstep._errors import FewstepError, unknown

_GROUP = "fewstep.commands"
_OURS = {
    "train": "_train:train_command",
    "eval": "_eval:eval_command",
    "adapt": "_adapt:Adapt",
    "inspect": "_inspect:Inspect",
    "export": "_export:Export",
    "attack": "_attack:AttackRun",
    "data": "_data:Data",
    "layerwise": "_layerwise:Layerwise",
    "launch": "_launch:Launch",
    "serve": "_serve:Serve",
    "play": "_play:Play",
}
_STUDIES = ("reproduce", "bench")  # of a distribution of its own


def commands() -> dict[str, EntryPoint]:
    """The commands by name; a package cannot replace one of ours."""
    ours = {name: EntryPoint(name, f"fewstep.cli.{place}", _GROUP) for name, place in _OURS.items()}
    return ours | {entry.name: entry for entry in entry_points(group=_GROUP) if entry.name not in ours}


def load(entry: EntryPoint, words: Sequence[str]) -> type:
    """The command of an entry: a dataclass to call, or what a function makes of the words behind the command's name."""
    if entry.dist is None:
        return _load(entry, words)
    try:
        return _load(entry, words)
    except FewstepError:
        raise
    except Exception as error:
        raise FewstepError(
            f"fewstep {entry.name}, a command of the package {entry.dist.name}, cannot be loaded: "
            f"{type(error).__name__}: {error}. Repair the package, or: pip uninstall {entry.dist.name}"
        ) from error


def _load(entry: EntryPoint, words: Sequence[str]) -> type:
    command = entry.load()
    if callable(command) and not isinstance(command, type):
        command = command(words)
    if not (isinstance(command, type) and dataclasses.is_dataclass(command) and "__call__" in dir(command)):
        raise FewstepError(
            f"fewstep {entry.name} is {entry.value}, which is not a command. Make it a dataclass with "
            "__call__(self) -> int, or a function of the words that returns one."
        )
    return command


def missing(name: str, known: Mapping[str, object]) -> FewstepError:
    """The error for a name that no command has."""
    if name in _STUDIES:
        return FewstepError(
            f"fewstep {name} is one of the studies, which are not installed. Run: pip install 'fewstep[studies]'"
        )
    return unknown("command", name, known)
