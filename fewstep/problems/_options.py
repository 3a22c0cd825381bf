"""Options: the fields of frozen dataclasses, or the keyword parameters of a factory, with default, help and bounds."""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from fewstep._errors import FewstepError

HIDDEN, CHANGES = "hidden", "changes"
Value: TypeAlias = Any  # of an option: a number, a text, a tuple of these; its group knows its type
Values: TypeAlias = Mapping[str, Value]
Options: TypeAlias = Any  # a group of options: an instance of a frozen dataclass, whose fields only its owner knows


def option(
    default: Value, help: str, *, min: float | None = None, hidden: bool = False, changes: bool = False
) -> Value:  # fmt: skip
    """A field of a group of options: its default, what it means in one line, and the smallest value it may have.

    `hidden` marks what only the program fills in, such as the classes that a folder had when a run was begun; `changes`
    what a trained model may be evaluated with another value of: its tasks are others then.
    """
    metadata = {"help": help, "min": min, HIDDEN: hidden, CHANGES: changes}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def from_signature(
    title: str, factory: Callable[..., object], *, skip: tuple[str, ...] = (), changes: bool = False
) -> type:  # fmt: skip
    """The group of options that the parameters of a factory make: those of a simple type that have a default and are
    keyword-only, or have a help text in their annotation: `draws: Annotated[int, "How often to draw"] = 1`.
    """
    hints = get_type_hints(factory, include_extras=True)
    fields = []
    for name, parameter in inspect.signature(factory).parameters.items():
        kind, *notes = get_args(hints[name]) if get_origin(hints.get(name)) is Annotated else [hints.get(name)]
        kind = str if _is_named(kind) else kind
        text = next((note for note in notes if isinstance(note, str)), "")
        optional = parameter.default is not parameter.empty and parameter.default is not None and name not in skip
        if optional and is_simple(kind) and (text or parameter.kind is parameter.KEYWORD_ONLY):
            fields.append((name, kind, option(parameter.default, text, changes=changes)))
    return dataclasses.make_dataclass(title, fields, frozen=True)


@lru_cache
def without(group: type, name: str) -> type:
    """The group without one of its options."""
    fields = [(field.name, field.type, field) for field in dataclasses.fields(group) if field.name != name]
    return dataclasses.make_dataclass(group.__name__, fields, frozen=True)


def _is_named(kind: object) -> bool:
    """Whether it is a name or the thing itself, `str | Callable`: on a command line it is a name."""
    return get_origin(kind) in (Union, UnionType) and str in get_args(kind)


def is_simple(kind: object) -> bool:
    """Whether a value of this type can be read from a command line and kept as JSON."""
    if get_origin(kind) is tuple:
        return all(part is ... or is_simple(part) for part in get_args(kind))
    return kind in (bool, int, float, str) or get_origin(kind) is Literal


def fill(group: type, values: Values) -> Options:
    """A group with those of the values that are its own, each checked."""
    fields = {field.name: field for field in dataclasses.fields(group)}
    hints = get_type_hints(group)
    own = {name: _fitted(fields[name], hints[name], value) for name, value in values.items() if name in fields}
    return group(**own)


def _fitted(field: "dataclasses.Field[Value]", kind: object, value: Value) -> Value:
    """A value as its option keeps it: lists from a file as tuples, and no number out of bounds."""
    value = _tuples(value)
    if get_origin(kind) is tuple and isinstance(value, str):
        value = (value,)
    if get_origin(kind) is Literal and value not in get_args(kind):
        choices = ", ".join(map(str, get_args(kind)))
        raise FewstepError(f"`{field.name}` is {value!r}. Known: {choices}.")
    lowest: int | float = field.metadata.get("min", -math.inf)
    lowest = -math.inf if lowest is None else lowest
    numbers = [entry for entry in (value if isinstance(value, tuple) else (value,)) if isinstance(entry, int | float)]
    for number in numbers:
        if lowest == 0.0 and isinstance(lowest, float) and not 0 <= number < math.inf:
            raise FewstepError(f"`{field.name}` is {number}. It must be finite and not negative, such as 0.01.")
        if number < lowest:
            raise FewstepError(f"`{field.name}` is {value}. It must be at least {lowest}.")
    return value


def _tuples(value: Value) -> Value:
    if isinstance(value, dict):
        return {name: _tuples(entry) for name, entry in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
