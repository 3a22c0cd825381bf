"""From an experiment on a table to its problem: what is read, what is kept with the run, and the network that fits."""

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from fewstep import losses, networks
from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep._network import Network
from fewstep.experiments.experiment import Experiment
from fewstep.problems.parts import Problem, checked_loss, own_loss, own_network
from fewstep.tables import Asked, Rows, Schema, Table, check_sizes, make_table, read
from fewstep.tasks.table import table


def pin_table(experiment: Experiment) -> Experiment:
    """The experiment with what its table says: the split of the tasks, and the columns as the training tasks have
    them. They are kept with the run, so that it needs the table no more to be adapted."""
    made = read_table(dataclasses.replace(experiment, classes=None, schema=None, source=None))
    source = {"path": str(_path(experiment).resolve()), "rows": made.rows, "digest": made.digest}
    return dataclasses.replace(experiment, classes=made.split, schema=made.schema.to_dict(), source=source)


def read_table(experiment: Experiment) -> Table:
    """The experiment's table, read once as long as the file is the same."""
    path = _path(experiment)
    missing = [f"`{name}`" for name in ("task", "x", "y") if not getattr(experiment, name)]
    if missing:
        raise FewstepError(
            f"{experiment.tasks} needs {', '.join(missing)}: `task` names the column that says which task a row "
            "belongs to, `x` those to predict from, `y` the one to predict."
        )
    if not path.is_file() and experiment.source:
        path = Path(experiment.source["path"])  # the run is used in another folder than it was made in
    if not path.is_file():
        raise FewstepError(
            f"There is no file {path}, the table that the run was made with. Bring it back."
            if experiment.source
            else f"There is no file {str(path)!r}. Give table:PATH of a CSV or Parquet file."
        )
    stamp = (path.stat().st_mtime_ns, path.stat().st_size)
    return _read(path, stamp, experiment.to_json())


def _path(experiment: Experiment) -> Path:
    return Path(experiment.tasks.removeprefix("table:")).expanduser()


@cache
def _read(path: Path, stamp: tuple[int, int], told: str) -> Table:
    experiment = Experiment.from_json(told)
    asked = asked_of(experiment)
    frame = read(path, [asked.task, *asked.x, asked.y] if asked.task else [*asked.x, asked.y])
    schema = Schema.from_dict(experiment.schema) if experiment.schema else None
    made = make_table(frame, asked, split=experiment.classes, split_seed=experiment.split_seed or 0, schema=schema)
    if experiment.source and experiment.source["digest"] != made.digest:
        raise FewstepError(
            f"{path} has changed since the run was made: its tasks had {experiment.source['rows']} rows then and have "
            f"{made.rows} now, or cells are others. Bring the table back as it was, or train a new run."
        )
    return made


def asked_of(experiment: Experiment) -> Asked:
    """What the experiment says of its table."""
    missing, categories = experiment.missing or "refuse", experiment.categories or ()
    return Asked(
        experiment.task, experiment.x or (), experiment.y or "", experiment.classify or None, missing, categories,
        experiment.outliers or "drop",
    )  # fmt: skip


def table_problem(experiment: Experiment) -> Problem:
    """The problem of an experiment on a table in a file."""
    pinned = experiment if experiment.schema else pin_table(experiment)
    schema = Schema.from_dict(pinned.schema or {})
    return problem_of_rows(pinned, schema, lambda split: read_table(pinned).parts[split])


def problem_of_rows(
    experiment: Experiment, schema: Schema, rows: Callable[[str], Rows], make: Callable[..., Any] | None = None
) -> Problem:
    """The problem of an experiment on rows by split, of a given schema; `make(x, outputs)` may bring the network."""
    inputs, outputs = schema.widths
    usual = "cross_entropy" if schema.classes else "squared_error"

    def tasks(shots: int, queries: int, split: str = "train", ways: int | None = None) -> Tasks:
        if ways is not None:
            raise FewstepError("`ways` does not apply: a table's classes are those of its target. Leave it out.")
        part = rows(split)
        check_sizes(part, shots, split)
        least = experiment.least_shots if split == "train" and shots == experiment.shots else None
        return table(part, shots, queries, least=least)

    def network(asked: int | None = None, norm: str | None = None) -> Network:
        wanted = outputs if asked is None else asked
        if experiment.network is not None or make is not None:
            return own_network(make or experiment.network, jnp.zeros((4, inputs)), wanted)
        return _perceptron(experiment, inputs, wanted)

    score, text = losses.accuracy if schema.classes else losses.squared_error, experiment.loss or usual
    loss = checked_loss(text, own_loss(text), outputs, classes=bool(schema.classes))
    return Problem(
        tasks, network, loss, score, "accuracy" if schema.classes else "rmse",
        losses.error_rate if schema.classes else losses.squared_error, widths=(inputs, outputs), schema=schema,
        rows=rows,
    )  # fmt: skip


def _perceptron(experiment: Experiment, inputs: int, outputs: int) -> Network:
    std = 0.01 if experiment.start == "paper" else None
    return networks.mlp(inputs, outputs, hidden=experiment.widths, std=std, bias_inputs=experiment.bias_inputs or 0)
