"""Tables: many small data sets in one table, one per patient, sensor, shop or user."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, PyTree

from fewstep import losses
from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep._network import Network
from fewstep.learners import FITTING, NEURAL_PROCESSES, PROCESSES
from fewstep.problems._base import Base, Target, fit_base, out_of_fold, read_base
from fewstep.problems._baselines import compare
from fewstep.problems._fields import check_fields
from fewstep.problems._held_out import target_scores
from fewstep.problems._kind import Answer, Cell, Facts, Fields, Given, Kind, Part, Plan, Problem, Say, Written
from fewstep.problems._options import Options, Value, Values
from fewstep.problems._own import find_loss
from fewstep.problems._points import Perceptron, make_perceptron
from fewstep.problems._pooled import answer_pooled
from fewstep.problems._probability import class_scores
from fewstep.problems._rows import ScoreRow
from fewstep.problems._table_options import TableOptions, roles_of
from fewstep.problems._table_pictures import draw_held_out
from fewstep.tables import (
    Column,
    Draw,
    Frame,
    Rows,
    Schema,
    Table,
    clamped,
    join_rows,
    large_enough,
    make_table,
    outside,
    read,
    table_tasks,
    task_names,
    whole_tasks,
)  # fmt: skip

_PREFIX, IN_MEMORY = "table:", "table"
_SAMPLES = 5  # of a random mask, which answer together


class TableDetails(NamedTuple):
    """A table's columns, and the table itself, which is read when it is needed."""

    schema: Schema
    read: Callable[[], Table]


def _defaults(tasks: str, method: str, given: Values) -> Values:
    shots = given.get("shots", TableOptions.shots)
    ordered = given.get("support", "random") != "random"  # else every draw of a task learns from the same rows
    usual = {
        "seeds": 3, "steps": 3000, "meta_batch": 8, "validation_tasks": 200, "inner_steps": 5, "inner_lr": 0.03,
        "inner_clip": 5.0, "schedule": "cosine", "clip_norm": 10.0, "hidden": (64, 64), "init": "he",
        "min_shots": shots, "keep": "best", "patience": 8,
    }  # fmt: skip
    if method in NEURAL_PROCESSES:
        usual |= {"outer_lr": 5e-4, "clip_norm": 1.0}
    if method in PROCESSES:
        usual |= {"steps": FITTING.steps, "meta_batch": FITTING.meta_batch, "outer_lr": FITTING.rate}
    elif ordered and isinstance(shots, int):
        usual["min_shots"] = (shots + 1) // 2
    every = max(1, given.get("steps", usual["steps"]) // 20)
    return usual | {"log_every": min(100, every), "validate_every": every}


def _pin(tasks: str, options: TableOptions, begun: TableOptions | None) -> TableOptions:
    """The options with what the table says: the split of the tasks, and the columns as the training tasks have them.
    They are kept with a run, so that it can be adapted without the table."""
    if options.schema:
        return options
    if begun is not None:
        kept = {name: getattr(begun, name) for name in ("classes", "schema", "fitted_base", "source")}
        return dataclasses.replace(options, **kept)
    table = _read_file(tasks, options)
    # The note is kept, since the tasks that it says are left out are no longer looked at.
    source = {"path": str(_path(tasks).resolve()), "rows": table.rows, "digest": table.digest, "note": table.note}
    known = dataclasses.replace(options, classes=table.split, schema=table.schema.to_dict(), source=source)
    return with_fitted_base(known, table)


def with_fitted_base(options: TableOptions, table: Table) -> TableOptions:
    """The options with the base fitted to a table, if they name one."""
    if not options.base or options.fitted_base:
        return options
    target = Target(table.schema.widths[1], bool(table.schema.classes))
    parts = table.parts
    fitted = fit_base(options.base, parts["train"], parts["validation"], target, seed=options.split_seed)
    return dataclasses.replace(options, fitted_base=fitted)


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
    roles = roles_of(options)
    schema = Schema.from_dict(options.schema) if options.schema else None
    table = make_table(
        read(path, roles.columns), roles, split=options.classes or None, schema=schema, min_rows=options.min_shots + 1,
        draw=Draw(options.split_seed, options.test_tasks, options.folds, options.fold),
    )  # fmt: skip
    if not options.source:
        return table
    if options.source["digest"] != table.digest:
        raise FewstepError(
            f"{path} has changed since the run was made: its tasks had {options.source['rows']} rows then and have "
            f"{table.rows} now, or cells are others. Bring the table back as it was, or train a new run."
        )
    return table._replace(note=options.source.get("note", table.note))


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
    classes, single = bool(schema.classes), len(schema.targets) == 1

    target = Target(outputs, classes)
    base = _base(options, network, schema, target) if options.fitted_base else None

    def parts() -> dict[str, Rows]:
        if table is None:
            raise FewstepError("The rows of this model were in memory, and are not kept with it.")
        return table().parts

    def training(train: Rows, validation: Rows) -> Rows:
        both = join_rows(train, validation)
        return (both if options.all_tasks else train)._replace(room=(len(both.counts), len(both.x)))

    def rows(split: str) -> Rows:
        return training(parts()["train"], parts()["validation"]) if split == "train" else parts()[split]

    @cache
    def fitted_to() -> Rows:
        """The training rows, with what the base says of each behind them."""
        if base is None:
            return rows("train")
        train, validation = parts()["train"], parts()["validation"]
        said = out_of_fold(options.base, options.fitted_base, train, target, seed=options.split_seed)
        others = np.asarray(jax.jit(base.predict)(validation.x))
        return training(_beside(train, said), _beside(validation, others))

    def make(shots: int, queries: int, split: str = "train", ways: int | None = None) -> Tasks:
        if ways is not None:
            raise FewstepError("`ways` does not apply: a table's classes are those of its target. Leave it out.")
        of = fitted_to() if split == "train" else rows(split)
        if split == "train" and shots == options.shots and options.min_shots < shots:
            return table_tasks(of, shots, queries, min_shots=options.min_shots)
        return table_tasks(large_enough(of, shots, split), shots, queries)

    @cache
    def again() -> Problem:
        return problem_of_rows(dataclasses.replace(options, all_tasks=True), network, schema, table)

    return Problem(
        make, lambda wanted=None, norm=None: make_perceptron(network, inputs, wanted or outputs),
        find_loss(network.loss, outputs, classes=classes), losses.accuracy if classes else losses.squared_error,
        "accuracy" if classes else "rmse", losses.error_rate if classes else losses.squared_error, (inputs,), outputs,
        classes=classes, labels=schema.classes, splits=True, held_out=rows, with_validation=again,
        base=base, whole=lambda most: whole_tasks(fitted_to(), most),
        scale=schema.target.scale if single else 1.0, samples=_SAMPLES,
        targets={} if single else {target.name: target.scale for target in schema.targets},
        digits=4 if classes else 5 - int(np.floor(np.log10(min(target.scale for target in schema.targets)))),
        details=TableDetails(schema, table or (lambda: Table(schema, {}, {}))),
    )  # fmt: skip


def _base(options: TableOptions, network: Options, schema: Schema, target: Target) -> Base:
    """The base, and the network of rows with its answer behind them; of classes, the network adds to that."""
    inputs = schema.widths[0]

    def wider(outputs: int | None = None, norm: str | None = None) -> Network:
        own = make_perceptron(network, inputs + target.outputs, outputs or target.outputs)
        if not target.classes or outputs not in (None, target.outputs):
            return own

        def apply(params: PyTree, state: PyTree, x: Array, weight: Array) -> tuple[PyTree, PyTree]:
            y, state = own.apply(params, state, x, weight)
            return y + x[:, inputs:], state

        return own._replace(apply=apply)

    return read_base(options.fitted_base, target, wider)


def _beside(rows: Rows, said: np.ndarray) -> Rows:
    return rows._replace(x=np.concatenate([rows.x, said], axis=1))


def read_frame(problem: Problem, frame: Frame, part: Part) -> Given:
    """The rows of a table as the network takes them, in a support with their targets."""
    schema: Schema = problem.details.schema
    x = schema.unbounded(frame, strict=schema.unknown == "refuse")
    y = schema.y(frame) if part == "support" else None
    several = schema.task is not None and schema.task in frame.columns
    tasks = task_names(frame, schema.task) if several else None
    far = outside(schema, frame, x, y, tasks)
    return Given(
        clamped(x), np.zeros(0) if y is None else y, schema.classes,
        {name: _plain(column) for name, column in frame.columns.items()},
        tasks, far.distance, far.notes, far.ignored,
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
    return y if problem.classes else problem.details.schema.decode(y)


def _write(problem: Problem, query: Given, answer: Answer) -> Written:
    if problem.labels:
        shares = {f"probability of {name}": answer.mean[:, n].tolist() for n, name in enumerate(problem.labels)}
        return Written({"prediction": [problem.labels[n] for n in answer.mean.argmax(1)], **shares})
    parts = {"prediction": answer.mean} | ({"low": answer.low, "high": answer.high} if answer.calibrated else {})
    parts, targets = {name: _units(problem, part) for name, part in parts.items()}, problem.details.schema.targets
    return Written({
        name if len(targets) == 1 else f"{name} of {target.name}": part[:, n].tolist()
        for n, target in enumerate(targets) for name, part in parts.items()
    })  # fmt: skip


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
        more |= target_scores(problem.targets, each.answers)
        rows.setdefault(each.name, []).append(ScoreRow(
            "test", each.shots, None, problem.metric, each.score.mean, each.score.interval95, each.score.n_tasks, **more
        ))  # fmt: skip
    return rows


def _describe(problem: Problem) -> Facts:
    schema: Schema = problem.details.schema
    rows = [f"| {column.label} | {column.kind} | {_in_training(column)} |"
            for column in (*schema.features, *schema.targets)]  # fmt: skip
    names = " and ".join(f"`{target.name}`" for target in schema.targets)
    what = f"The target is {names}." if len(schema.targets) == 1 else f"The targets are {names}."
    text = f"The tasks of a table, one for each `{schema.task}`. {what}"
    card = [text, "\n".join(["| column | kind | in training |", "|---|---|---|", *rows])]
    y = schema.target.name if len(schema.targets) == 1 else [target.name for target in schema.targets]
    return {"columns": {"x": list(schema.names), "y": y}, "schema": schema.to_dict(), "card": card}


def _in_training(column: Column) -> str:
    if column.is_category:
        return ", ".join(column.categories)
    return f"{column.mean:.4g} ± {column.scale:.4g}" if column.period is None else f"a cycle of {column.period:.6g}"


def _strictness(problem: Problem, unknown: Literal["refuse", "allow"]) -> Problem:
    details: TableDetails = problem.details
    return problem._replace(details=details._replace(schema=dataclasses.replace(details.schema, unknown=unknown)))


TABLES = Kind(
    "table", (_PREFIX, IN_MEMORY), _problem, lambda tasks: TableOptions, lambda tasks: Perceptron, _defaults,
    _read_source, _write, draw_held_out, pin=_pin, note=lambda problem: problem.details.read().note,
    units=_units, baselines=_compare, describe=_describe, strictness=_strictness,
    pooled=lambda problem, plan: answer_pooled(problem.details.read(), plan.shots, plan.split, plan.seed),
)  # fmt: skip
