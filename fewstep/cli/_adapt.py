"""`fewstep adapt`"""

import csv
import dataclasses
import io
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from fewstep._disk import writing
from fewstep.cli import _show
from fewstep.runs import adapt, load
from fewstep.runs.experiment import NO_HINT
from fewstep.tasks import batch
from fewstep.tasks.files import read_query, read_support


@dataclasses.dataclass(frozen=True)
class Adapt:
    """Adapt a run to a new task and predict: x and prediction as CSV, to stdout or a file.

    The support file is a CSV whose last column is y (a first line of names is allowed), or an npz with x and y. The
    query file has the same columns without y, or an npz with x.

    Examples of use:
      fewstep adapt runs/x --support known.csv --query asked.csv
      fewstep adapt runs/x --support known.npz --query asked.npz --inner-steps 5 --out predicted.csv
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    support: Path
    """CSV or npz with the known points of the task."""
    query: Path
    """CSV or npz with the points to predict at."""
    out: Annotated[Path | None, NO_HINT] = None
    """File to write to, CSV or npz by its ending (default: CSV to stdout)."""
    inner_steps: Annotated[int | None, NO_HINT] = None
    """Gradient steps on the support (default: as in training)."""
    seed: int = 0
    """Seed of the masks."""
    json: bool = False
    """Print the predictions as JSON on stdout."""

    def __call__(self) -> int:
        x, y = read_support(self.support)
        asked = read_query(self.query, x.shape[1:])
        model = load(self.run)
        for note in model.notes:
            _show.say(note)
        made = adapt(model, batch(x, y), asked, steps=self.inner_steps, seed=self.seed)
        if self.out is not None:
            _write(self.out, asked, made)
            _show.say(f"Wrote {len(made)} predictions to {self.out}.")
        if self.json:
            _show.as_json({"run": str(self.run), "x": asked.tolist(), "prediction": made.tolist()})
        elif self.out is None:
            sys.stdout.write(_csv(asked, made))
        return 0


def _csv(x: np.ndarray, made: np.ndarray) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = lambda stem, count: [stem] if count == 1 else [f"{stem}{n + 1}" for n in range(count)]
    writer.writerow([*names("x", x.shape[1]), *names("prediction", made.shape[1])])
    writer.writerows(np.concatenate([x, made], axis=1).tolist())
    return text.getvalue()


def _write(path: Path, x: np.ndarray, made: np.ndarray) -> None:
    with writing(path):
        if path.suffix == ".npz":
            np.savez(path, x=x, prediction=made)
        else:
            path.write_text(_csv(x, made))
