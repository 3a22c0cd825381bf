"""From folds to rows: means and deviations, published values beside them, and a verdict."""

import csv
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from fewstep.files import JSON
from fewstep_studies.reproduce._rows import Row, as_json
from fewstep_studies.reproduce._study import O, Results
from fewstep_studies.reproduce.layerwise._sets import Entry

COLUMNS = ("L", "train", "test", "seconds", "H*", "MSE", "CE", "C", "T")
Pair = Sequence[float]  # mean and deviation


class Published(NamedTuple):
    """One row: the bandwidth, and of each column mean and deviation."""

    sigma: float | None
    values: dict[str, Pair]


def _read() -> dict[tuple[str, str, str], Published]:
    text = files("fewstep_studies.reproduce.layerwise").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (row["source"], row["set"], row["method"]): Published(
            float(row["sigma"]) if row["sigma"] else None,
            {name: (float(row[name]), float(row[f"{name} std"])) for name in COLUMNS},
        )
        for row in csv.DictReader(text.splitlines())
    }


# By source, set and method. `poster`: Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding, the table of
# Experiment 4. `later`: the authors' summaries of ten-fold runs of W_s, in endsley/NIK_Thm1_Release_V2; the poster's
# are of older code.
ALL = _read()

LABELS = {
    "ism": "ISM (W*)", "ism-balanced": "ISM, classes balanced *", "ws": "W_s", "sgd-ce": "SGD, cross entropy",
    "sgd-mse": "SGD, squares", "svm": "RBF SVM", "forest": "random forest", "mlp": "scikit-learn MLP",
}  # fmt: skip
_CHECKED = tuple(name for name in COLUMNS if name != "seconds")
_MIN_DEVIATION = 0.01  # a poster deviation that is printed as 0 is held to this
_CLOSE = 0.05  # for the accuracy of W_s against the authors' later files
Claims = dict[str, JSON]  # of one set, as `_claims.measure` gives them


class Folds(NamedTuple):
    """The plan of a cell: a set and a method, fold by fold, or the claims on a set."""

    set: str
    method: str
    length: int
    work: int = 1


class FoldScore(NamedTuple):
    """What one method comes to on one fold: accuracies, and measures in our definition and in the authors'."""

    train: float
    test: float
    seconds: float | None
    layers: int | None = None
    sigma: float | None = None
    ours: Mapping[str, float] = {}
    authors: Mapping[str, float] = {}
    stopped: str | None = None
    history: Sequence[Mapping[str, JSON]] | None = None
    converged: bool | None = None
    epochs: int | None = None


class Measurement(NamedTuple):
    """What was measured of a cell: its folds, or the claims on a set."""

    folds: Sequence[FoldScore] = ()
    claims: Claims | None = None


def claims_of(results: Results[O, Folds, Measurement]) -> dict[str, dict[str, Claims]]:
    """The claims on each set as the result keeps them; kernels are in the figures."""
    claims = {cell.plan.set: measurement.claims for cell, measurement in results.pairs if measurement.claims}
    return {"claims": {name: {key: of[key] for key in of if key != "kernels"} for name, of in claims.items()}}


class Summary(NamedTuple):
    """A row of the poster's table: of each column the mean and deviation over the folds."""

    set: str
    method: str
    label: str
    folds: int
    sigma: Pair | None
    L: Pair | None
    train: Pair
    test: Pair
    seconds: Pair | None
    timed: int | None = None
    real: bool = False
    what: str = ""
    ours: Mapping[str, Pair | None] = {}
    authors: Mapping[str, Pair | None] = {}
    published: Mapping[str, JSON] | None = None
    later: Mapping[str, JSON] | None = None
    history: Sequence[Mapping[str, JSON]] | None = None
    stopped: Sequence[str | None] = ()
    verdict: str = ""

    def columns(self) -> dict[str, Pair | None]:
        """By the poster's columns, measured as the authors do."""
        own = {"L": self.L, "train": self.train, "test": self.test, "seconds": self.seconds}
        return {name: own[name] if name in own else self.authors.get(name) for name in COLUMNS}


def as_row(summary: Summary) -> Row:
    """The row of the result: the test accuracy, and all that the summary holds."""
    mean, deviation = summary.test
    return Row(
        summary.method, {"set": summary.set}, "accuracy", mean, seed_std=deviation, seeds=summary.folds,
        verdict=summary.verdict, more={k: v for k, v in summary._asdict().items() if k != "verdict"},
    )  # fmt: skip


def summary_of(row: Row) -> Summary:
    """The summary that a row was made of."""
    return Summary(**{key: value for key, value in as_json(row).items() if key in Summary._fields})


def summary(name: str, method: str, entry: Entry, folds: Sequence[FoldScore], wanted: int) -> Summary:
    """One row of the table; it is compared with the poster when all folds are done."""
    of_poster, later = (ALL.get((source, entry.poster or "", method)) for source in ("poster", "later"))
    draft = Summary(
        name, method, LABELS[method], len(folds), _sigma(method, folds), _pair([fold.layers for fold in folds]),
        _pair([fold.train for fold in folds]) or (), _pair([fold.test for fold in folds]) or (),
        _pair([fold.seconds for fold in folds]), sum(fold.seconds is not None for fold in folds),
        entry.real, entry.what,
        _measured([fold.ours for fold in folds]), _measured([fold.authors for fold in folds]),
        None if of_poster is None else {"sigma": of_poster.sigma, **of_poster.values},
        None if later is None else {"sigma": later.sigma, **later.values},
        folds[0].history, [fold.stopped for fold in folds],
    )  # fmt: skip
    whole = len(folds) >= max(10, wanted)
    return draft._replace(verdict=_verdict(draft, of_poster, later) if whole else "not judged")


def _verdict(row: Summary, of_poster: Published | None, later: Published | None) -> str:
    """ISM is held to the poster in every column but time; W_s in test accuracy to the authors' later files."""
    if row.method == "ws" and later is not None:
        return "meets" if abs(row.test[0] - later.values["test"][0]) <= _CLOSE else "misses"
    if row.method != "ism" or of_poster is None:
        return ""
    checked = {name: pair for name, pair in row.columns().items() if name in _CHECKED and pair}
    misses = [name for name, pair in checked.items() if not _near(pair, of_poster, name)]
    return f"misses {', '.join(misses)}" if misses else "meets"


def _sigma(method: str, folds: Sequence[FoldScore]) -> Pair | None:
    """Mean and deviation; of W_s the smallest of all folds, as the authors give it."""
    values = [fold.sigma for fold in folds]
    return (min(value for value in values if value is not None), 0.0) if method == "ws" else _pair(values)


def _near(pair: Pair, published: Published, name: str) -> bool:
    mean, spread = published.values[name]
    return round(abs(pair[0] - mean), 4) <= max(2 * spread, _MIN_DEVIATION)


def _measured(folds: Sequence[Mapping[str, float]]) -> dict[str, Pair | None]:
    return {name: _pair([fold[name] for fold in folds]) for name in folds[0]}


def _pair(values: Sequence[float | None]) -> Pair | None:
    """Mean and deviation over the folds that have it, that of a population, as the authors'."""
    known = [value for value in values if value is not None]
    return (float(np.mean(known)), float(np.std(known))) if known else None
