"""Tables: many small data sets in one table, one per patient, sensor, shop or user."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from fewstep import losses
from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep.learners import FITTING, PROCESSES
from fewstep.problems._baselines import compare
from fewstep.problems._fields import check_fields
from fewstep.problems._kind import Answer, Cell, Facts, Fields, Given, Kind, Part, Plan, Problem, Say, Written
from fewstep.problems._options import Options, Value, Values, option
from fewstep.problems._own import find_loss
from fewstep.problems._points import Perceptron, make_perceptron
from fewstep.problems._probability import class_scores
from fewstep.problems._rows import ScoreRow
from fewstep.problems._table_pictures import draw_held_out
from fewstep.tables import (
    Frame,
    Roles,
    Rows,
    Schema,
    Table,
    check_sizes,
    clamped,
    make_table,
    outside,
    read,
    table_tasks,
    task_names,
)  # fmt: skip

_PREFIX, IN_MEMORY = "table:", "table"
_SAMPLES = 5  # of a random mask, which answer together


@dataclasses.dataclass(frozen=True)
class TableOptions:
    """The options of the tasks of a table."""

    task: str = option("", "Column that names the task a row belongs to: the child, the station, the shop.")
    x: tuple[str, ...] = option((), "Columns to predict from: numbers, ISO dates (as days), or text (as categories).")
    y: str = option("", "Column to predict: numbers, or text for classes.")
    shots: int = option(5, "Rows of a task that are learned from.", min=1)
    min_shots: int = option(5, "Draw in training how many rows are learned from, between this and --shots.", min=1)
    queries: int = option(20, "Rows of a task that it is evaluated on.", min=1)
    categories: tuple[str, ...] = option((), "Columns of --x that are categories though they look like numbers.")
    classify: bool = option(False, "Take a target of numbers as classes.")
    missing: Literal["refuse", "mean"] = option(
        "refuse", "What to do about empty cells: refuse them, or take the mean of the training tasks for a feature, "
        "and leave rows without a target out.",
    )  # fmt: skip
    outliers: Literal["drop", "clip", "keep"] = option(
        "drop", "What to do about values that cannot be measurements, such as 9999 for a missing one: leave their rows "
        "out (drop), take the nearest other value (clip), or nothing (keep). The first two are reported.",
    )  # fmt: skip
    split_seed: int = option(0, "Seed of the split of the tasks, 65 : 15 : 20 of a hundred.", min=0)
    classes: dict[str, tuple[str, ...]] = option({}, "The tasks of each split, as drawn for the run.", hidden=True)
    schema: dict[str, Value] = option({}, "The columns as the training tasks have them.", hidden=True)
    source: dict[str, Value] = option({}, "Where the table was, its rows, and a digest of them.", hidden=True)


class TableDetails(NamedTuple):
    """A table's columns, and the table itself, which is read when it is needed."""

    schema: Schema
    read: Callable[[], Table]


def _defaults(tasks: str, method: str, given: Values) -> Values:
    shots = given.get("shots", TableOptions.shots)
    usual = {
        "seeds": 3, "steps": 3000, "meta_batch": 8, "validation_tasks": 200, "inner_steps": 5, "inner_lr": 0.03,
        "inner_clip": 5.0, "schedule": "cosine", "clip_norm": 10.0, "hidden": (64, 64), "init": "he",
        "min_shots": shots, "keep": "best", "patience": 8,
    }  # fmt: skip
    if method in PROCESSES:
        usual |= {"steps": FITTING.steps, "meta_batch": FITTING.meta_batch, "outer_lr": FITTING.rate}
    every = max(1, given.get("steps", usual["steps"]) // 20)
    return usual | {"log_every": min(100, every), "validate_every": every}


def _pin(tasks: str, options: TableOptions, begun: TableOptions | None) -> TableOptions:
    """The options with what the table says: the split of the tasks, and the columns as the training tasks have them.
    They are kept with a run, so that it can be adapted without the table."""
    if options.schema:
        return options
    if begun is not None:
        return dataclasses.replace(options, classes=begun.classes, schema=begun.schema, source=begun.source)
    table = _read_file(tasks, options)
    source = {"path": str(_path(tasks).resolve()), "rows": table.rows, "digest": table.digest}
    return dataclasses.replace(options, classes=table.split, schema=table.schema.to_dict(), source=source)


def _path(tasks: str) -> Path:
    return Path(tasks.removeprefix(_PREFIX)).expanduser()


def _read_file(tasks: str, options: TableOptions) -> Table:
    """The table in a file, read once as long as the file is the same."""
    path = _path(tasks)
    if missing := [f"`{name}`" for name in ("task", "x", "y") if not getattr(options, name)]:
        raise FewstepError(
            f"{tasks} needs {', '.join(missing)}: `task` names the column that says which task a row "
            "belongs to, `x` those to predict from, `y` the one to predict."
        )
    if not path.is_file() and options.source:
        path = Path(options.source["path"])  # the run is used in another folder than it was made in
    if not path.is_file():
        raise FewstepError(
            f"There is no file {path}, the table that the run was made with. Bring it back."
            if options.source
            else f"There is no file {str(path)!r}. Give table:PATH of a CSV or Parquet file."
        )
    return _read(path, (path.stat().st_mtime_ns, path.stat().st_size), _Frozen(options))


class _Frozen:
    """Options as the key of a cache, though some hold dictionaries."""

    def __init__(self, options: TableOptions):
        self.options, self._text = options, repr(options)

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and self._text == other._text


@cache
def _read(path: Path, stamp: tuple[int, int], frozen: _Frozen) -> Table:
    options = frozen.options
    roles = Roles(
        options.task, options.x, options.y, options.classify or None, options.missing, options.categories,
        options.outliers,
    )  # fmt: skip
    frame = read(path, [options.task, *options.x, options.y])
    schema = Schema.from_dict(options.schema) if options.schema else None
    table = make_table(frame, roles, split=options.classes or None, split_seed=options.split_seed, schema=schema)
    if options.source and options.source["digest"] != table.digest:
        raise FewstepError(
            f"{path} has changed since the run was made: its tasks had {options.source['rows']} rows then and have "
            f"{table.rows} now, or cells are others. Bring the table back as it was, or train a new run."
        )
    return table


def _problem(tasks: str, options: TableOptions, network: Options) -> Problem:
    options = _pin(tasks, options, None)
    if tasks == IN_MEMORY:
        return problem_of_rows(options, network, Schema.from_dict(options.schema))
    return problem_of_rows(options, network, Schema.from_dict(options.schema), lambda: _read_file(tasks, options))


def problem_of_rows(
    options: TableOptions, network: Options, schema: Schema, table: Callable[[], Table] | None = None
) -> Problem:
    """The problem of a table with these columns; without the table itself, it can still be adapted to new rows."""
    inputs, outputs = schema.widths
    classes = bool(schema.classes)

    def rows(split: str) -> Rows:
        if table is None:
            raise FewstepError(f"The {split} rows of this model were in memory, and are not kept with it.")
        return table().parts[split]

    def make(shots: int, queries: int, split: str = "train", ways: int | None = None) -> Tasks:
        if ways is not None:
            raise FewstepError("`ways` does not apply: a table's classes are those of its target. Leave it out.")
        part = rows(split)
        check_sizes(part, shots, split)
        varies = split == "train" and shots == options.shots and options.min_shots < shots
        return table_tasks(part, shots, queries, min_shots=options.min_shots if varies else None)

    return Problem(
        make, lambda wanted=None, norm=None: make_perceptron(network, inputs, wanted or outputs),
        find_loss(network.loss, outputs, classes=classes), losses.accuracy if classes else losses.squared_error,
        "accuracy" if classes else "rmse", losses.error_rate if classes else losses.squared_error, (inputs,), outputs,
        classes=classes, labels=schema.classes, splits=True, held_out=rows, scale=schema.target.scale,
        digits=4 if classes else 5 - int(np.floor(np.log10(schema.target.scale))), samples=_SAMPLES,
        details=TableDetails(schema, table or (lambda: Table(schema, {}, {}))),
    )  # fmt: skip


def read_frame(problem: Problem, frame: Frame, part: Part) -> Given:
    """The rows of a table as the network takes them, in a support with their targets."""
    schema: Schema = problem.details.schema
    x, y = schema.unbounded(frame), schema.y(frame) if part == "support" else None
    far = outside(schema, frame, x, y)
    several = schema.task is not None and schema.task in frame.columns
    return Given(
        clamped(x), np.zeros(0) if y is None else y, schema.classes,
        {name: _plain(column) for name, column in frame.columns.items()},
        task_names(frame, schema.task) if several else None, far.distance, far.notes,
    )  # fmt: skip


def _read_source(problem: Problem, source: Path | Fields, part: Part) -> Given:
    if not isinstance(source, Mapping):
        return read_frame(problem, read(source), part)
    check_fields(source, part, "columns")
    if not (columns := source.get("columns")):
        first = problem.details.schema.names[0]
        raise FewstepError(f'The {part} has no "columns". Send {{"{first}": [...], ...}}.', code="no_columns")
    try:
        frame = read({name: np.asarray(cells, object) for name, cells in columns.items()})
        return read_frame(problem, frame._replace(name=f"the {part}"), part)
    except FewstepError as error:
        raise FewstepError(str(error).replace("the table", f"the {part}"), code="bad_columns") from None


def _units(problem: Problem, y: np.ndarray) -> np.ndarray:
    return y if problem.classes else problem.details.schema.target.decode(np.asarray(y, float))


def _write(problem: Problem, query: Given, answer: Answer) -> Written:
    if problem.labels:
        shares = {f"probability of {name}": answer.mean[:, n].tolist() for n, name in enumerate(problem.labels)}
        return Written({"prediction": [problem.labels[n] for n in answer.mean.argmax(1)], **shares})
    columns = {"prediction": answer.mean} | ({"low": answer.low, "high": answer.high} if answer.calibrated else {})
    return Written({name: _units(problem, part[:, 0]).tolist() for name, part in columns.items()})


def _plain(column: np.ndarray) -> list[Cell]:
    """A column of the user's as text and numbers; dates as ISO, without a time of midnight."""
    if column.dtype.kind == "M":
        moments = column.astype("datetime64[us]").astype(object)
        return [None if moment is None else moment.isoformat(" ").removesuffix(" 00:00:00") for moment in moments]
    simple = str | int | float | bool | None
    return [cell if isinstance(cell, simple) else str(cell) for cell in column.tolist()]


def _compare(problem: Problem, plan: Plan, say: Say) -> dict[str, list[ScoreRow]]:
    """The scores of baselines that are fitted to the training tasks; only on test tasks."""
    rows: dict[str, list[ScoreRow]] = {}
    if plan.split != "test":
        return rows
    for each in compare(problem.details.read(), plan.shots, seed=plan.seed, say=say):
        more: dict[str, Value] = {}
        if problem.classes:
            more |= class_scores(each.answers.mean[:, :, 0], each.answers)
        rows.setdefault(each.name, []).append(ScoreRow(
            "test", each.shots, None, problem.metric, each.score.mean, each.score.interval95, each.score.n_tasks, **more
        ))  # fmt: skip
    return rows


def _describe(problem: Problem) -> Facts:
    schema: Schema = problem.details.schema
    rows = [
        f"| {column.name} | {column.kind} | "
        + (", ".join(column.categories) if column.kind == "category" else f"{column.mean:.4g} ± {column.scale:.4g}")
        + " |"
        for column in (*schema.features, schema.target)
    ]
    text = f"The tasks of a table, one for each `{schema.task}`. The target is `{schema.target.name}`."
    card = [text, "\n".join(["| column | kind | in training |", "|---|---|---|", *rows])]
    columns = {"x": list(schema.names), "y": schema.target.name}
    return {"columns": columns, "schema": schema.to_dict(), "card": card}


TABLES = Kind(
    "table", (_PREFIX, IN_MEMORY), _problem, lambda tasks: TableOptions, lambda tasks: Perceptron, _defaults,
    _read_source, _write, draw_held_out, pin=_pin, note=lambda problem: problem.details.read().note,
    units=_units, baselines=_compare, describe=_describe,
)  # fmt: skip
