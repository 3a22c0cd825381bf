"""`fewstep adapt`"""

import csv
import dataclasses
import io
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import tyro

from fewstep import tables
from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.experiments.experiment import NO_HINT
from fewstep.files import writing
from fewstep.runs import Model, adapt, ensemble_of, load
from fewstep.tables._answer import answer, rounded
from fewstep.tables._ensemble import Ensemble
from fewstep.tasks import batch
from fewstep.tasks.files import read_query, read_support
from fewstep.tasks.pictures import read_query_images, read_support_images


@dataclasses.dataclass(frozen=True)
class Adapt:
    """Adapt a run to a new task and predict: x and prediction as CSV, to stdout or a file.

    For a run on a table both files are tables (CSV or Parquet) with the columns that it was trained with, the support
    with the target too; the answer has your columns and units, and an interval. If both have the column that names the
    task, each task is learned from its own rows. For a run on curves the support is a
    CSV whose last column is y (a first line of names is allowed), or an npz with x and y; the query has the same
    columns without y, or is an npz with x. For a run on images the support is a folder or zip with one folder of images
    a class, and the query an image or a folder of images; the CSV has the class of each.

    Examples of use:
      fewstep adapt runs/growth --support new.csv --query ask.csv --level 0.8
      fewstep adapt runs/x --support known.csv --query asked.csv
      fewstep adapt runs/x --support known.npz --query asked.npz --inner-steps 5 --out predicted.csv
      fewstep adapt runs/characters --support letters/ --query unknown.png --inner-steps 3
      fewstep adapt omniglot-mtnet-5way --support letters/ --query unknown/     (a model that comes with the package)
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or the name of a model that comes with the package."""
    support: Path
    """CSV or npz with the known points of the task; for images a folder or zip."""
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
        table = self._table(model)
        if self.out is not None:
            _write(self.out, table)
            _show.say(f"Wrote {len(table.cells)} predictions to {self.out}.")
        if self.json:
            warnings = {} if table.warnings is None else {"warnings": table.warnings}
            _show.as_json({"run": str(self.run), **table.arrays, **warnings})
        elif self.out is None:
            sys.stdout.write(_csv(table))
        return 0

    def _check_out(self) -> None:
        if self.out is None:
            return
        if self.out.suffix not in (".csv", ".npz"):
            raise FewstepError(f"--out is {self.out}. Its ending says what to write: .csv or .npz.")
        for name in ("support", "query"):
            if self.out.resolve() == getattr(self, name).resolve():
                raise FewstepError(f"--out is {self.out}, the file of --{name}, which would be lost. Choose another.")

    def _table(self, model: Model) -> "_Table":
        experiment = model.run.experiment
        if self.level is not None and not experiment.has_table:
            raise FewstepError("--level does not apply: only runs on tables have intervals. Leave it out.")
        if experiment.has_images:
            return self._images(model)
        if self.norm:
            raise FewstepError("--norm does not apply: the run has no images. Leave it out.")
        return self._rows(model) if experiment.has_table else self._points(model)

    def _rows(self, model: Model) -> "_Table":
        """A table in and a table out, in the user's columns and units."""
        ensemble = ensemble_of(model)
        if self.level is not None and ensemble.schema.classes:
            raise FewstepError("--level does not apply: classes have probabilities, not intervals. Leave it out.")
        known, asked = tables.read(self.support), tables.read(self.query)
        level = 0.9 if self.level is None else self.level
        made, warnings = answer(ensemble, known, asked, level=level, steps=self.inner_steps, seed=self.seed)
        for warning in warnings:
            _show.say(f"Warning: {warning}")
        if not ensemble.schema.classes and "low" not in made:
            _show.say(_without_intervals(ensemble, self.inner_steps))
        if twice := [name for name in (*made, *["warnings"] * self.json) if name in asked.columns]:
            raise FewstepError(f"{self.query} has a column {twice[0]!r}, as the answer has. Rename or remove it.")
        theirs = {name: _plain(column) for name, column in asked.columns.items()}
        ours = {name: column.tolist() for name, column in made.items()}
        shown = theirs | {name: rounded(ensemble, values) for name, values in ours.items()}
        cells = [list(row) for row in zip(*shown.values(), strict=True)]
        return _Table(list(shown), cells, theirs | ours, warnings)

    def _points(self, model: Model) -> "_Table":
        x, y = read_support(self.support)
        if x.shape[1] != (inputs := model.built.problem.widths[0]):
            raise FewstepError(f"{self.support} has {x.shape[1]} columns of x beside y, and the run takes {inputs}.")
        asked = read_query(self.query, x.shape[1:])
        made = adapt(model, batch(x, y), asked, steps=self.inner_steps, seed=self.seed)
        names = lambda stem, count: [stem] if count == 1 else [f"{stem}{n + 1}" for n in range(count)]
        head = [*names("x", asked.shape[1]), *names("prediction", made.shape[1])]
        cells = np.concatenate([asked, made], axis=1).tolist()
        return _Table(head, cells, {"x": asked.tolist(), "prediction": made.tolist()})

    def _images(self, model: Model) -> "_Table":
        image, invert = model.built.problem.image, model.run.experiment.tasks == "omniglot"
        if self.norm and self.norm not in model.built.problem.norms:
            raise FewstepError(f"--norm does not apply: the run normalizes by {model.built.problem.norms[0]}.")
        known = read_support_images(self.support, image, invert)
        asked = read_query_images(self.query, image, invert)
        classes = list(dict.fromkeys(known.names))
        support = batch(known.x, np.asarray([classes.index(name) for name in known.names]))
        made = adapt(model, support, asked.x, steps=self.inner_steps, seed=self.seed, ways=len(classes), norm=self.norm)
        answers = [classes[number] for number in made.argmax(axis=1)]
        head = ["image", "prediction", *(f"probability of {name}" for name in classes)]
        cells = [
            [name, answer, *(round(float(p), 4) for p in row)]
            for name, answer, row in zip(asked.names, answers, made, strict=True)
        ]
        told = {"image": asked.names, "prediction": answers, "classes": classes, "probability": made.tolist()}
        return _Table(head, cells, told)


class _Table(NamedTuple):
    """Predictions as a table, and as arrays by name; of a table's rows, warnings too."""

    head: list[str]
    cells: list[list[Any]]
    arrays: dict[str, Any]
    warnings: list[str] | None = None


def _without_intervals(ensemble: Ensemble, steps: int | None) -> str:
    if ensemble.calibration is not None:
        return f"No intervals: they are calibrated for {ensemble.steps} inner steps, not for {steps}."
    return "The run has no calibration, so there are no intervals. Run its train command again to make it."


def _plain(column: np.ndarray) -> list[Any]:
    """A column of the user's as text and numbers; dates as ISO, without a time of midnight."""
    if column.dtype.kind == "M":
        moments = column.astype("datetime64[us]").astype(object)
        return [None if moment is None else moment.isoformat(" ").removesuffix(" 00:00:00") for moment in moments]
    kept = str | int | float | bool | None
    return [cell if isinstance(cell, kept) else str(cell) for cell in column.tolist()]


def _csv(table: _Table) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.head, *table.cells])
    return text.getvalue()


def _write(path: Path, table: _Table) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".npz":
            np.savez(path, **{name: np.asarray(array) for name, array in table.arrays.items()})  # type: ignore[arg-type]
        else:
            path.write_text(_csv(table))
