"""`fewstep adapt`"""

import csv
import dataclasses
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT
from fewstep.files import JSON, writing
from fewstep.models import LEVEL, LEVELS, NONE, Adaptation, Model, adapt
from fewstep.problems import Cell, Given, Problem, Written
from fewstep.runs import load


@dataclasses.dataclass(frozen=True)
class Adapt:
    """Adapt a run to a new task and predict: x and prediction as CSV, to stdout or a file.

    For a run on a table both files are tables (CSV or Parquet) with the columns that it was trained with, the support
    with the target too; the answer has your columns and units, and an interval. If both have the column that names the
    task, each task is learned from its own rows. For a run on curves the support is a
    CSV whose last column is y (a first line of names is allowed), or an npz with x and y; the query has the same
    columns without y, or is an npz with x. For a run on images the support is a folder or zip with one folder of images
    per class, and the query an image or a folder of images; the CSV has the class of each. For a run on texts the
    support is a CSV with texts and labels, or a folder with one folder of .txt files per class, and the query a CSV
    with texts or a .txt with one on each line. The name of an encoder needs no run: the nearest class mean of features.

    Examples of use:
      fewstep adapt runs/growth --support support.csv --query query.csv --level 0.8
      fewstep adapt runs/x --support support.csv --query query.csv
      fewstep adapt runs/x --support support.npz --query query.npz --inner-steps 5 --out predicted.csv
      fewstep adapt runs/characters --support letters/ --query unknown.png --inner-steps 3
      fewstep adapt omniglot-mtnet-5way --support letters/ --query unknown/     (a model that comes with the package)
      fewstep adapt efficientnet-lite0 --support photos/ --query unknown/             (an encoder: no training at all)
      fewstep adapt runs/requests --support labeled.csv --query requests.csv --reject
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or the name of a model that comes with the package."""
    support: Path
    """CSV or npz with the examples to learn from; for images a folder or zip."""
    query: Path
    """CSV or npz with the points to predict at; for images an image or a folder."""
    out: Annotated[Path | None, NO_HINT] = None
    """File to write to, CSV or npz by its ending (default: CSV to stdout)."""
    inner_steps: Annotated[int | None, NO_HINT] = None
    """Gradient steps on the support (default: as in training)."""
    norm: Annotated[Literal["support", "transductive"] | None, NO_HINT] = None
    """Whose statistics normalize images: the support's (default), or of all queries together (transductive), which is
    more accurate where many are asked at once, but makes an answer depend on the others."""
    level: Annotated[float | None, NO_HINT] = None
    """Share of the true values that the intervals of a table's predictions are to hold: 0.5, 0.8, 0.9 or 0.95
    (default: 0.9)."""
    unknown_categories: Annotated[Literal["refuse", "allow"] | None, NO_HINT] = None
    """What to do about a category in a table that training never saw: refuse it, or take it as none of the known, with
    a warning (default: as the run's --unknown-categories says)."""
    reject: bool = False
    """Answer "none of these" for a query that fits no class of the support, by a threshold that was calibrated on the
    validation classes: for runs on features of an encoder."""
    seed: int = 0
    """Seed of the masks."""
    json: bool = False
    """Print the predictions as JSON on stdout."""

    def __call__(self) -> int:
        _show.watch_data(None)
        self._check_out()
        model = load(self.run)
        for note in model.notes:
            _show.say(note)
        columns, arrays, warnings = self._answer(model)
        if self.out is not None:
            _write(self.out, columns, arrays, model.problem.digits)
            _show.say(f"Wrote {len(next(iter(columns.values())))} predictions to {self.out}.")
        if self.json:
            _show.print_json({"run": str(self.run), **arrays, "warnings": warnings})
        elif self.out is None:
            sys.stdout.write(_csv(columns, model.problem.digits))
        return 0

    def _check_out(self) -> None:
        if self.out is None:
            return
        if self.out.suffix not in (".csv", ".npz"):
            raise FewstepError(f"--out is {self.out}. Its ending says what to write: .csv or .npz.")
        for name in ("support", "query"):
            if self.out.resolve() == getattr(self, name).resolve():
                raise FewstepError(f"--out is {self.out}, the file of --{name}, which would be lost. Choose another.")

    def _answer(self, model: Model) -> tuple[dict[str, Sequence[Cell]], dict[str, JSON], list[str]]:
        """The user's columns and those of the answer; the same as arrays; and what to be warned of."""
        self._check_options(model)
        problem, kind = self._problem(model), model.kind
        support, query = kind.read(problem, self.support, "support"), kind.read(problem, self.query, "query")
        warnings = [*support.notes, *query.notes]
        for warning in warnings:
            _show.say(f"Warning: {warning}")
        answers: dict[str, list[Cell]] = {}
        for learned_from, rows in _tasks(support, query, str(self.support), str(self.query)):
            learned = adapt(model, learned_from, steps=self.inner_steps, seed=self.seed, norm=self.norm)
            part = query.only(rows)._replace(labels=support.labels)
            answer = learned.answer(part.x, level=LEVEL if self.level is None else self.level, distance=part.distance)
            written = kind.write(problem, part, answer)
            written = self._rejected(written, learned, part)
            for name, values in written.columns.items():
                column = answers.setdefault(name, [None] * len(query.x))
                for place, value in zip(rows, values, strict=True):
                    column[place] = value
        intervals = any(name == "low" or name.startswith("low of ") for name in answers)
        if problem.held_out is not None and not problem.classes and not intervals:
            _show.say(_without_intervals(model, self.inner_steps))
        if twice := [name for name in (*answers, *["warnings"] * self.json) if name in query.rows]:
            raise FewstepError(f"{self.query} has a column {twice[0]!r}, as the answer has. Rename or remove it.")
        columns = query.rows | answers
        return columns, query.rows | written.arrays if written.arrays else columns, warnings

    def _rejected(self, written: Written, learned: Adaptation, part: Given) -> Written:
        """What was written, with another prediction for rows of no class, if that is asked for."""
        if not self.reject:
            return written
        unknown = learned.unknown(part.x)
        names = [NONE if out else name for out, name in zip(unknown, written.columns["prediction"], strict=True)]
        arrays = written.arrays | {"prediction": names} if written.arrays else {}
        return Written({**written.columns, "prediction": names}, arrays)

    def _problem(self, model: Model) -> Problem:
        """The model's problem, as strict about categories as was asked for."""
        if self.unknown_categories is None:
            return model.problem
        if model.kind.strictness is None:
            raise FewstepError("--unknown-categories does not apply: only tables have categories. Leave it out.")
        return model.kind.strictness(model.problem, self.unknown_categories)

    def _check_options(self, model: Model) -> None:
        problem = model.problem
        if self.level is not None:
            if problem.classes or (problem.held_out is None and model.learner().spread is None):
                raise FewstepError(
                    "--level does not apply: only predictions of a table's numbers have intervals, and those of a "
                    "method that reports its deviation, such as maml+laplace. Leave it out."
                )
            if self.level not in LEVELS:
                levels = ", ".join(map(str, LEVELS))
                raise FewstepError(f"--level is {self.level}. Intervals are calibrated at {levels}.")
        if self.reject and not problem.rejects:
            raise FewstepError("--reject does not apply: only runs on features of an encoder reject. Leave it out.")
        if self.norm and self.norm not in problem.norms:
            norm = f"the run normalizes by {problem.norms[0]}" if problem.norms[0] else "the run has no images"
            raise FewstepError(f"--norm does not apply: {norm}. Leave it out.")


def _tasks(support: Given, query: Given, here: str, there: str) -> Iterator[tuple[Given, np.ndarray]]:
    """Each task's own rows to learn from, and which rows of the query are its."""
    if support.tasks is None or query.tasks is None:
        for one, name, other in ((support, here, there), (query, there, here)):
            if one.tasks is not None and len(set(one.tasks.tolist())) > 1:
                raise FewstepError(
                    f"{name} has rows of {len(set(one.tasks.tolist()))} tasks ({_list(one.tasks)}), and {other} has no "
                    "column that says which its rows belong to. Add it, or give one task at a time."
                )
        yield support, np.arange(len(query.x))
        return
    for name in dict.fromkeys(query.tasks.tolist()):
        own = np.flatnonzero(support.tasks == name)
        if not len(own):
            raise FewstepError(
                f"Row {int(np.argmax(query.tasks == name)) + 1} of {there} is of the task {name!r}, and {here} has no "
                f"row of it. It has: {_list(support.tasks)}."
            )
        yield support.only(own), np.flatnonzero(query.tasks == name)


def _list(names: np.ndarray) -> str:
    different = list(dict.fromkeys(names.tolist()))
    return ", ".join(map(str, different[:5])) + (", ..." if len(different) > 5 else "")


def _without_intervals(model: Model, steps: int | None) -> str:
    if model.calibration is not None:
        return f"No intervals: they are calibrated for {model.steps} inner steps, not for {steps}."
    return "The run has no calibration, so there are no intervals. Run its train command again to make it."


def _csv(columns: Mapping[str, Sequence[Cell]], digits: int | None) -> str:
    """The columns as CSV; predictions with the digits that are worth showing."""
    ours = ("prediction", "low", "high", "probability")
    cells = [
        [round(value, digits) if digits is not None and name.startswith(ours) and isinstance(value, float) else value
         for value in column] for name, column in columns.items()
    ]  # fmt: skip
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([list(columns), *zip(*cells, strict=True)])
    return text.getvalue()


def _write(
    path: Path, columns: Mapping[str, Sequence[Cell]], arrays: Mapping[str, JSON], digits: int | None
) -> None:  # fmt: skip
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".npz":
            np.savez(path, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
        else:
            path.write_text(_csv(columns, digits))
