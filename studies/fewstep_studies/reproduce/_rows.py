"""Rows of a study's table: what was measured of a cell, beside what a paper has, and the verdict."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from fewstep.files import JSON

Changes = Mapping[str, JSON]  # settings of an experiment, by name
Setting = Mapping[str, float | str]
Published = tuple[float, float | None] | None  # a mean and its 95% interval, if that is known


class Row(NamedTuple):
    """A row of the result; `more` are keys that only some studies have.

    `cell` and `steps` name the training behind it, and `command` the words that make it again.
    """

    method: str
    setting: Mapping[str, float | str] = {}
    metric: str = ""
    mean: float | None = None
    interval95: float | None = None
    median: float | None = None
    seed_std: float | None = None
    n_tasks: int | None = None
    seeds: int = 1
    diverged_seeds: int = 0
    diverged_tasks: int = 0
    published: float | str | None = None
    published_interval95: float | None = None
    verdict: str = ""
    ours: bool = False
    seconds: float | None = None
    cell: str | None = None
    steps: int | None = None
    command: str | None = None
    more: Mapping[str, JSON] = {}


class Cost(NamedTuple):
    """What a method costs; nothing stands where it was not measured."""

    method: str
    setting: str | None = None
    steps: int | None = None
    training_minutes: float | None = None
    training_seconds: float | None = None
    steps_per_second: float | None = None
    times_maml: float | None = None
    steps_per_second_all_seeds: float | None = None
    times_maml_all_seeds: float | None = None
    steps_to_maml_final_error: int | None = None
    seconds_to_maml_final_error: float | None = None


class Unfinished(NamedTuple):
    """A training under way: how far it is, its accuracy on the validation tasks, and the command that resumes it."""

    cell: str
    method: str
    steps: int
    seconds: float
    step: int
    validation_accuracy: float | None
    command: str


class Result(NamedTuple):
    """What a study has come to; `more` are keys that only some studies have."""

    name: str
    protocol: str
    quick: bool
    scale: Mapping[str, JSON]
    rows: list[Row]
    command: str
    versions: Mapping[str, str]
    cores: int
    commit: str | None
    total_seconds: float = 0.0
    report: str | None = None
    cost: Sequence[Cost] = ()
    unfinished: Sequence[Unfinished] = ()
    trained_at_commits: Sequence[str] = ()
    more: Mapping[str, JSON] = {}


R = TypeVar("R")


def as_json(value: object) -> JSON:
    """A record as a JSON object, and what it holds likewise; the keys of `more` stand beside its own."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):  # a NamedTuple
        fields = {key: as_json(entry) for key, entry in value._asdict().items()}
        more = fields.pop("more", {})
        return {**fields, **more}
    if isinstance(value, Mapping):
        return {key: as_json(entry) for key, entry in value.items()}
    return [as_json(entry) for entry in value] if isinstance(value, list | tuple) else value


def read_record(kind: Callable[..., R], stored: JSON) -> R:
    """The value of a type, such as a record, that `as_json` wrote: what a record lacks has its default, what is beyond
    it goes into `more`, if it has that."""
    return cast(R, _read(kind, stored))


def _read(kind: object, stored: JSON) -> object:
    if isinstance(kind, type) and hasattr(kind, "_fields"):  # a NamedTuple
        hints = get_type_hints(kind)
        own = {key: _read(hints[key], value) for key, value in stored.items() if key in hints}
        beyond = {key: value for key, value in stored.items() if key not in hints}
        return kind(**own, **({"more": beyond} if "more" in hints else {}))
    parts, container = get_args(kind), get_origin(kind)
    if container is tuple:
        return tuple(map(_read, parts, stored))
    if container in (list, Sequence):
        return [_read(parts[0], entry) for entry in stored]
    if container in (dict, Mapping):
        return {key: _read(parts[1], entry) for key, entry in stored.items()}
    return stored


def compare(mean: float | None, interval: float | None, published: Published, *, higher: bool = False) -> str:
    """`meets` unless ours is worse than the paper's by more than the 95% interval of the difference; `higher` says
    that more is better."""
    if published is None:
        return ""
    if mean is None:
        return "misses"
    worse = published[0] - mean if higher else mean - published[0]
    return "meets" if worse <= ((interval or 0.0) ** 2 + (published[1] or 0.0) ** 2) ** 0.5 else "misses"


def with_verdicts(rows: list[Row], claim: Callable[[Row, list[Row]], bool | str | None]) -> list[Row]:
    """The rows with what a claim says of each, given all: whether it holds, or in words; `None` says nothing."""
    words: dict[bool | str, str] = {True: "meets", False: "misses"}
    said = [claim(row, rows) for row in rows]
    return [
        row if holds is None else row._replace(verdict=words.get(holds, str(holds)))
        for row, holds in zip(rows, said, strict=True)
    ]
