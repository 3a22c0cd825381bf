"""From the words of a command line to a command: mistakes are named by the words that the user wrote.

Tyro reads the values. Names are checked before: it takes an unknown option before a positional for a missing
positional, and names the latter by our field.
"""

import contextlib
import dataclasses
import difflib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from fewstep._errors import FewstepError
from fewstep.cli._arguments import EVERY
from fewstep.cli._commands import load, missing
from fewstep.cli._launch import with_separator
from fewstep.experiments import flag, option_names
from fewstep.files import writing

_ABOUT = (
    "Learn from many small tasks to learn the next one in a few gradient steps. `fewstep --version` prints the version."
)
_PRINT, _WRITE = "--tyro-print-completion", "--tyro-write-completion"
_SHELLS = ("bash", "zsh", "fish")
_VALUES = ConstructorRegistry()
_STUB = dataclasses.make_dataclass("Stub", [])  # of a command that is not the one in question
_NUMBERS: dict[Any, tuple[str, str]] = {
    int: ("INT", "a whole number, such as 5"),
    float: ("FLOAT", "a number, such as 0.01"),
}


def parse(commands: Mapping[str, EntryPoint], words: Sequence[str]) -> Callable[[], int]:
    """The command that the words say. Raises `FewstepError`, or `SystemExit` where tyro has said what is wrong."""
    words = with_separator(words)
    fitted = _fit(commands, words)
    completion = _is_completion(words)
    if completion:
        _check_completion(words)
    elif words[:1] not in (["-h"], ["--help"]):
        _check_names(fitted, words)
    target = Path(words[2]) if completion and len(words) > 2 else None
    with writing(target) if target else contextlib.nullcontext():
        return tyro.extras.subcommand_cli_from_dict(
            dict(fitted), prog="fewstep", description=_ABOUT, args=words, config=(tyro.conf.OmitArgPrefixes,),
            registry=_VALUES,
        )  # fmt: skip


def _fit(commands: Mapping[str, EntryPoint], words: Sequence[str]) -> Mapping[str, type]:
    """The commands, each with the options that apply to the rest of the words; those that are left out of a command
    line have their general form."""
    named = words[0] if words and words[0] in commands else None
    if named:
        return dict.fromkeys(commands, _STUB) | {named: load(commands[named], words[1:])}
    general = ("--help", EVERY) if _is_completion(words) else ("--help",)
    return {name: _general(entry, general) for name, entry in commands.items()}


def _general(entry: EntryPoint, words: Sequence[str]) -> type:
    """The general form of a command; one that cannot be loaded shows why, beside the others."""
    try:
        return load(entry, words)
    except FewstepError as error:
        return dataclasses.make_dataclass("Broken", [], namespace={"__doc__": str(error)})


def _is_completion(words: Sequence[str]) -> bool:
    return bool(words) and words[0].replace("_", "-") in (_PRINT, _WRITE)


def _check_completion(words: Sequence[str]) -> None:
    shell, needed = words[1] if len(words) > 1 else None, 2 if "print" in words[0] else 3
    if shell not in _SHELLS or len(words) < needed:
        raise FewstepError(
            f"{words[0]} needs a shell ({', '.join(_SHELLS)}){' and a file' * (needed == 3)}: "
            f"fewstep {_WRITE} bash ~/.local/share/bash-completion/completions/fewstep"
        )


def _check_names(commands: Mapping[str, type], words: Sequence[str]) -> None:
    """Raises unless the first word is a command, and every option is one of its options."""
    if not words:
        raise FewstepError(f"No command is given. Commands: {', '.join(commands)}. See fewstep --help.")
    name, *rest = words
    if name not in commands:
        raise missing(name, commands)
    names = {"-h", "--help", *_options(commands[name])}
    for word in rest[: rest.index("--")] if "--" in rest else rest:
        option = word.partition("=")[0].replace("_", "-")
        if re.match("--?[a-zA-Z]", option) and option not in names and not _is_number(word):
            if option.startswith("--") and option[2:].replace("-", "_") in option_names():
                what = _without_options(words)
                raise FewstepError(
                    f"{option} does not apply to fewstep {what}. Leave it out. What applies is listed by: "
                    f"fewstep {what} --help"
                )
            near = difflib.get_close_matches(option.lstrip("-"), [one.lstrip("-") for one in names], n=1)
            hint = f" Did you mean --{near[0]}?" if near else ""
            raise FewstepError(f"fewstep {name} has no option {option}.{hint} All are listed by: fewstep {name} --help")


def _without_options(words: Sequence[str]) -> str:
    """A command without its options, other than those that decide which apply."""
    parts = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    for number, word in enumerate(words):
        if word.partition("=")[0] in ("--network", "--outer"):
            parts += words[number : number + (1 if "=" in word else 2)]
    return " ".join(parts)


def _options(command: type) -> list[str]:
    """The options of a command as they are written: tyro makes them of the fields' names."""
    hints = get_type_hints(command, include_extras=True)
    options: list[str] = []
    for field in dataclasses.fields(command):
        kind, *marks = (
            get_args(hints[field.name]) if hasattr(hints[field.name], "__metadata__") else [hints[field.name]]
        )
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            options += _options(kind)
        elif tyro.conf.Positional not in marks and tyro.conf.Suppress not in marks:
            name = next((mark.name for mark in marks if getattr(mark, "name", None)), field.name)
            options += [flag(name), *([flag(f"no_{name}")] if kind is bool else [])]
    return options


def _is_number(word: str) -> bool:
    with contextlib.suppress(ValueError):
        return float(word) is not None
    return False


@_VALUES.primitive_rule
def _number(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """A number, a fixed number of them, or any."""
    kinds: tuple[Any, ...] = get_args(info.type) if info.type_origin is tuple else (info.type,)
    if kinds[0] not in _NUMBERS or any(kind not in (kinds[0], ...) for kind in kinds):
        return None
    each, (name, what) = kinds[0], _NUMBERS[kinds[0]]

    def read(word: str) -> Any:
        try:
            return each(word)
        except ValueError:
            raise ValueError(f"{word!r} is not {what}.") from None

    if info.type_origin is not tuple:
        return PrimitiveConstructorSpec(
            1,
            name,
            lambda words: read(words[0]),
            lambda value: isinstance(value, (int, each)),
            lambda value: [str(value)],
        )
    any_number = ... in kinds
    return PrimitiveConstructorSpec(
        "*" if any_number else len(kinds), f"[{name} [{name} ...]]" if any_number else " ".join([name] * len(kinds)),
        lambda words: tuple(map(read, words)), lambda value: isinstance(value, tuple),
        lambda value: list(map(str, value)),
    )  # fmt: skip


@_VALUES.primitive_rule
def _rate(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """A number, or two that it is drawn between."""
    pair = tuple[float, float]
    if set(get_args(info.type)) != {float, pair}:
        return None
    make = lambda kind: ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kind, info.markers))
    one, two = make(float), make(pair)
    assert isinstance(one, PrimitiveConstructorSpec)
    assert isinstance(two, PrimitiveConstructorSpec)
    return PrimitiveConstructorSpec(
        (1, 2), "FLOAT [FLOAT]", lambda words: (one if len(words) == 1 else two).instance_from_str(words),
        lambda value: one.is_instance(value) or two.is_instance(value),
        lambda value: (two if isinstance(value, tuple) else one).str_from_instance(value),
    )  # fmt: skip


@_VALUES.primitive_rule
def _or_nothing(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """An option that can be left out is read, and shown, as what it is when it is given."""
    kinds = get_args(info.type)
    if len(kinds) != 2 or NoneType not in kinds:
        return None
    given = next(kind for kind in kinds if kind is not NoneType)
    plain = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(given, info.markers))
    if not isinstance(plain, PrimitiveConstructorSpec):
        return None
    return dataclasses.replace(
        plain,
        instance_from_str=lambda words: None if words == ["None"] else plain.instance_from_str(words),
        is_instance=lambda value: value is None or plain.is_instance(value),
        str_from_instance=lambda value: ["None"] if value is None else plain.str_from_instance(value),
    )
