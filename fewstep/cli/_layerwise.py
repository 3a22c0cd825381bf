"""`fewstep layerwise`"""

import csv
import dataclasses
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from fewstep._errors import FewstepError, unknown
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT
from fewstep.files import JSON, write_json, writing
from fewstep.machine.meter import time_left
from fewstep.runs.run import holds_something

_WHAT = "fit: learn from a table; predict: classes of the rows of a table."
_METHODS = {"spectral": "SpectralLayerClassifier", "embedding": "KernelEmbeddingClassifier"}
_OF_FIT = ("target", "drop", "method", "folds", "max_layers", "overwrite", "seed")  # options that predict cannot take
MODEL = "model.npz"


def check_seed(seed: int) -> None:
    """Refuses what scikit-learn takes for no seed."""
    if not 0 <= seed < 2**32:
        raise FewstepError(f"--seed is {seed}. scikit-learn takes 0 to {2**32 - 1}: give one of these.")


@dataclasses.dataclass(frozen=True)
class Layerwise:
    """Networks learned layer by layer, without backpropagation, from a table: fit one, predict with it.

    A table is a CSV file whose first line names the columns. `fit` reports the cross-validated accuracy and what each
    layer has reached, and writes a folder with the model; `predict` writes the class of each row as CSV.

    Examples of use:
      fewstep layerwise fit wine.csv --target cultivar
      fewstep layerwise fit wine.csv --target cultivar --method embedding --folds 10 --out runs/wine
      fewstep layerwise predict runs/wine new.csv
      fewstep layerwise predict runs/wine new.csv --out predicted.csv
    """

    action: Annotated[tyro.conf.Positional[Literal["fit", "predict"]], tyro.conf.arg(metavar="ACTION", help=_WHAT)]
    """What to do."""
    first: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="TABLE|MODEL")]
    """For fit the table; for predict the model's folder, then the table."""
    second: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="[TABLE]", help_behavior_hint="")] = None
    """For predict, the table."""
    target: Annotated[str | None, NO_HINT] = None
    """The column of the labels (fit)."""
    drop: tuple[str, ...] = ()
    """Columns to leave out (fit)."""
    method: Literal["spectral", "embedding"] = "spectral"
    """spectral: W*, by eigenvectors; embedding: W_s, in closed form (fit)."""
    folds: int = 5
    """Folds of the cross-validation; 0 for none (fit)."""
    max_layers: Annotated[int | None, NO_HINT] = None
    """The most layers (default: 30; embedding: 29) (fit)."""
    out: Annotated[Path | None, NO_HINT] = None
    """Folder for the model (default: runs/layerwise-TABLE), or the file of predictions (default: stdout)."""
    overwrite: bool = False
    """Replace the model in that folder (fit)."""
    seed: int = 0
    """Seed of the random features and the folds (fit)."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def __call__(self) -> int:
        try:
            import fewstep.layerwise  # noqa: F401
        except ImportError as error:
            raise FewstepError(f"{error}") from None
        try:
            return self._fit() if self.action == "fit" else self._predict()
        except KeyboardInterrupt:
            _show.error("Stopped; nothing was written. A fit begins anew; --folds 0 leaves out the cross-validation.")
            return 130

    def _fit(self) -> int:
        from fewstep import tables
        from fewstep.layerwise.tables import to_labels, to_numbers

        if self.second is not None:
            raise FewstepError(f"fit takes one table, and {self.second} is a second. Leave it out.")
        check_seed(self.seed)
        if self.target is None:
            raise FewstepError("Say which column holds the labels: fewstep layerwise fit TABLE.csv --target COLUMN")
        table = tables.read(self.first)
        for name in self.drop:
            if name not in table.columns:
                raise unknown(f"column of {self.first}", name, table.columns)
        y = to_labels(table, self.target)
        names = [name for name in table.columns if name != self.target and name not in self.drop]
        if not names:
            raise FewstepError(f"{self.first} has no column besides {self.target!r} to learn from.")
        x = to_numbers(table, names)
        if (many := len(set(y.tolist()))) > max(20, len(y) / 2):
            raise FewstepError(
                f"The column {self.target!r} has {many} different labels in {len(y)} rows, as a number to predict has. "
                "These networks learn classes: name a column of classes."
            )
        folder = self._folder()
        validated = self._validate(x, y)
        begin = time.monotonic()
        model = self._model("")
        model.fit(x, y)
        seconds, own = time.monotonic() - begin, float(model.score(x, y))
        model.feature_names_in_ = np.asarray(names, object)
        path = model.save(folder / MODEL)
        result = {
            "model": str(folder), "file": str(path), "method": self.method, "target": self.target, "rows": len(y),
            "columns": names, "classes": model.classes_.tolist(), "cross_validation": validated,
            "train_accuracy": own, "layers": [record._asdict() for record in model.history_],
            "converged": model.converged_, "stopped": model.stopped_, "seconds": seconds,
        }  # fmt: skip
        write_json(folder / "fit.json", result)
        self._print(result)
        return 0

    def _folder(self) -> Path:
        folder = self.out or Path("runs") / f"layerwise-{self.first.stem}"
        if folder.exists() and not folder.is_dir():
            raise FewstepError(f"{folder} is a file. Choose another --out.")
        if folder.exists() and holds_something(folder):
            if not (folder / MODEL).exists():
                raise FewstepError(f"{folder} exists and holds no layer-wise model. Choose another --out.")
            if not self.overwrite:
                raise FewstepError(f"{folder} holds a model. Replace it with --overwrite, or choose another --out.")
        return folder

    def _model(self, title: str, **options: object) -> Any:
        import fewstep.layerwise as layerwise

        if self.max_layers is not None:
            options["max_layers"] = self.max_layers
        model = getattr(layerwise, _METHODS[self.method])(random_state=self.seed, **options)
        seldom = [0.0]

        def watch(number: int, record: Any, *, calibrating: bool = False) -> None:
            if time.monotonic() - seldom[0] > 2:
                seldom[0] = time.monotonic()
                of = "calibration, " if calibrating else title
                _show.say(f"{of}layer {number}: HSIC {record.hsic:.3f}, silhouette {record.silhouette:.3f}, "
                          f"{record.seconds:.1f} s")  # fmt: skip

        model._watch = watch
        return model

    def _validate(self, x: np.ndarray, y: np.ndarray) -> dict[str, JSON] | None:
        """The accuracy on rows held out, fold by fold."""
        from sklearn.model_selection import StratifiedKFold

        if not self.folds:
            return None
        names, counts = np.unique(y, return_counts=True)
        size = counts.min()
        if size < 2:
            alone = names[counts.argmin()]
            raise FewstepError(f"The class {alone} has one row, which no fold can learn and test. Give --folds 0.")
        if not 2 <= self.folds <= size:
            raise FewstepError(
                f"--folds is {self.folds} and the smallest class has {size} rows. Give 2 to {size}, or 0 for none."
            )
        scores: list[float] = []
        begin = time.monotonic()
        for train, test in StratifiedKFold(self.folds, shuffle=True, random_state=self.seed).split(x, y):
            model = self._model(f"fold {len(scores) + 1}, ", calibrate=False).fit(x[train], y[train])
            scores.append(float(model.score(x[test], y[test])))
            seconds = (time.monotonic() - begin) / len(scores) * (self.folds - len(scores))
            _show.say(f"fold {len(scores)} of {self.folds}: accuracy {scores[-1]:.3f}, {time_left(seconds)}")
        return {"folds": scores, "mean": float(np.mean(scores)), "std": float(np.std(scores))}

    def _print(self, result: dict[str, JSON]) -> None:
        if self.json:
            _show.print_json(result)
            return
        _show.print_table(
            ["layer", "HSIC", "CKA", "bandwidth", "width", "silhouette", "refused", "seconds"],
            [[number, *(f"{row[key]:.3f}" for key in ("hsic", "cka", "bandwidth")), row["width"],
              f"{row['silhouette']:.3f}", row["refused"], f"{row['seconds']:.2f}"]
             for number, row in enumerate(result["layers"], 1)],
        )  # fmt: skip
        if validated := result["cross_validation"]:
            print(
                f"accuracy on held-out rows: {validated['mean']:.3f} ± {validated['std']:.3f} over {self.folds} folds"
            )
        print(f"accuracy on its own rows: {result['train_accuracy']:.3f}; ended because {result['stopped']}")
        _show.say(f"The model is in {result['model']}: fewstep layerwise predict {result['model']} TABLE.csv")

    def _predict(self) -> int:
        from fewstep import tables
        from fewstep.layerwise import load
        from fewstep.layerwise.tables import to_numbers

        for option in dataclasses.fields(self):
            if option.name in _OF_FIT and getattr(self, option.name) != option.default:
                name = option.name.replace("_", "-")
                raise FewstepError(f"--{name} does not apply to predict: the model is fitted. Leave it out.")
        if self.second is None:
            raise FewstepError("Give the model and the table: fewstep layerwise predict MODEL TABLE.csv")
        if self.out is not None and self.out.resolve() == self.second.resolve():
            raise FewstepError(f"--out is {self.out}, the table itself, which would be lost. Choose another.")
        model = load(self.first / MODEL if self.first.is_dir() else self.first)
        names = model.__dict__.pop("feature_names_in_", None)  # columns are chosen by name here
        table = tables.read(self.second)
        x = to_numbers(table, list(table.columns) if names is None else list(names))
        if x.shape[1] != model.n_features_in_:
            raise FewstepError(f"{self.second} has {x.shape[1]} columns; the model takes {model.n_features_in_}.")
        shares = model.predict_proba(x)
        answers = model.classes_[shares.argmax(1)].tolist()
        if self.json:
            shown = {"prediction": answers, "classes": model.classes_.tolist(), "probability": shares.tolist()}
            _show.print_json(shown)
            return 0
        head = ["prediction", *(f"probability of {name}" for name in model.classes_)]
        lines = [[answer, *(f"{p:.4f}" for p in row)] for answer, row in zip(answers, shares, strict=True)]
        if self.out is None:
            csv.writer(sys.stdout, lineterminator="\n").writerows([head, *lines])
            return 0
        with writing(self.out), self.out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *lines])
        _show.say(f"Wrote {len(lines)} predictions to {self.out}.")
        return 0
