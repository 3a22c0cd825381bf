"""`fewstep adapt`"""

import csv
import dataclasses
import io
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import tyro

from fewstep._disk import writing
from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.runs import Model, adapt, load
from fewstep.runs.experiment import NO_HINT
from fewstep.tasks import batch
from fewstep.tasks.files import read_query, read_support
from fewstep.tasks.pictures import read_query_images, read_support_images


@dataclasses.dataclass(frozen=True)
class Adapt:
    """Adapt a run to a new task and predict: x and prediction as CSV, to stdout or a file.

    The support file is a CSV whose last column is y (a first line of names is allowed), or an npz with x and y. The
    query file has the same columns without y, or an npz with x. For a run on images the support is a folder or zip with
    one folder of images a class, and the query an image or a folder of images; the CSV has the class of each.

    Examples of use:
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
    """Whose statistics normalise images: the support's (default), or of all queries together (transductive), which is
    more accurate where many are asked at once, but makes an answer depend on the others."""
    seed: int = 0
    """Seed of the masks."""
    json: bool = False
    """Print the predictions as JSON on stdout."""

    def __call__(self) -> int:
        _show.watch_data(None)
        model = load(self.run)
        for note in model.notes:
            _show.say(note)
        table = self._images(model) if model.run.experiment.has_images else self._points(model)
        if self.out is not None:
            _write(self.out, table)
            _show.say(f"Wrote {len(table.cells)} predictions to {self.out}.")
        if self.json:
            _show.as_json({"run": str(self.run), **table.arrays})
        elif self.out is None:
            sys.stdout.write(_csv(table))
        return 0

    def _points(self, model: Model) -> "_Table":
        if self.norm:
            raise FewstepError("--norm does not apply: the run has no images. Leave it out.")
        x, y = read_support(self.support)
        asked = read_query(self.query, x.shape[1:])
        made = adapt(model, batch(x, y), asked, steps=self.inner_steps, seed=self.seed)
        names = lambda stem, count: [stem] if count == 1 else [f"{stem}{n + 1}" for n in range(count)]
        head = [*names("x", asked.shape[1]), *names("prediction", made.shape[1])]
        cells = np.concatenate([asked, made], axis=1).tolist()
        return _Table(head, cells, {"x": asked.tolist(), "prediction": made.tolist()})

    def _images(self, model: Model) -> "_Table":
        image, invert = model.built.problem.image, model.run.experiment.tasks == "omniglot"
        if self.norm and self.norm not in model.built.problem.norms:
            raise FewstepError(f"--norm does not apply: the run normalises by {model.built.problem.norms[0]}.")
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
    """Predictions as a table, and as arrays by name."""

    head: list[str]
    cells: list[list[Any]]
    arrays: dict[str, Any]


def _csv(table: _Table) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.head, *table.cells])
    return text.getvalue()


def _write(path: Path, table: _Table) -> None:
    with writing(path):
        if path.suffix == ".npz":
            np.savez(path, **{name: np.asarray(array) for name, array in table.arrays.items()})  # type: ignore[arg-type]
        else:
            path.write_text(_csv(table))
