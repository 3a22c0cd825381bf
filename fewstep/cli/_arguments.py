"""From groups of options to the arguments of a command."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, get_type_hints

import tyro

from fewstep.experiments import flag
from fewstep.problems import HIDDEN, Values

EVERY = "--every-option"  # in place of words: the form of a command that a shell completes
NO_HINT = tyro.conf.arg(help_behavior_hint="")  # the help text says itself what leaving it out means


def arguments(group: type, defaults: Values) -> type:
    """A group of options as tyro reads it: with help texts, these defaults, and without what is hidden."""
    hints, fields = get_type_hints(group), []
    for field in dataclasses.fields(group):
        if not field.metadata.get(HIDDEN):
            text = str(field.metadata["help"])
            kind = Annotated[hints[field.name], tyro.conf.arg(help=text)]
            fields.append((field.name, kind, dataclasses.field(default=defaults.get(field.name, field.default))))
    command = dataclasses.make_dataclass(group.__name__, fields, frozen=True)
    command.__doc__ = ""
    return command


def given_in(words: Sequence[str], names: Sequence[str]) -> set[str]:
    """Which of these options the words of a command give."""
    written = {word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--")}
    return {name for name in names if flag(name) in written or flag(f"no_{name}") in written}
