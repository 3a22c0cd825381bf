"""The cells of the table, each a set with a method, fold by fold; what is done is kept and not done again."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold

from fewstep._errors import FewstepError
from fewstep.files import read_json, write_json
from fewstep.runs import Progress
from fewstep_studies.reproduce._figure import Figure
from fewstep_studies.reproduce._rows import Row, as_json, read_record
from fewstep_studies.reproduce._study import Cell, Results
from fewstep_studies.reproduce.layerwise import LayerwiseOptions, _claims, _tables
from fewstep_studies.reproduce.layerwise._methods import METHODS, Fold
from fewstep_studies.reproduce.layerwise._rows import Folds, FoldScore, Measurement, as_row, summary
from fewstep_studies.reproduce.layerwise._sets import Entry, Table, entries

_CLAIMS, _CLAIM_SETS = "claims", ("random", "adversarial", "wine")
_ORDER = ("ism", "ism-balanced", "ws", "svm", "forest", "mlp", "sgd-ce", "sgd-mse", _CLAIMS)  # what takes long last
_QUICK_SETS, _QUICK_METHODS = ("random", "wine"), ("ism", "ws", "svm", _CLAIMS)


def sets_there() -> dict[str, str]:
    """What a folder is held to: the sets, which depend on where data are."""
    return {"sets": ", ".join(entries())}


def cells(options: LayerwiseOptions) -> list[Cell[Folds]]:
    """Every set with every method, and the claims on some; a quick run takes a few, unless `only` names others."""
    plans = [Folds(name, method, options.folds) for method in _ORDER for name in entries()]
    plans = [plan for plan in plans if plan.method != _CLAIMS or plan.set in _CLAIM_SETS]
    if options.quick and not options.only:
        plans = [plan for plan in plans if plan.set in _QUICK_SETS and plan.method in _QUICK_METHODS]
    return [Cell(f"{plan.set}-{plan.method}", plan.method, {}, plan, groups=(plan.set, plan.method)) for plan in plans]


def run(cell: Cell[Folds], path: Path, options: LayerwiseOptions, progress: Progress) -> Measurement:
    """The folds of a cell, written one by one, or the claims."""
    entry = entries()[cell.plan.set]
    if cell.plan.method != _CLAIMS:
        return Measurement(_run_folds(cell.plan, entry, path, options, progress))
    progress.begin(0, 1)
    return Measurement(claims=_claims.measure(cell.plan.set, entry, options.seed))


def so_far(cell: Cell[Folds], path: Path) -> Measurement | None:
    """The folds of a cell that are done."""
    return Measurement(folds) if (folds := _read_folds(path)) else None


def _read_folds(path: Path) -> list[FoldScore]:
    return [read_record(FoldScore, fold) for fold in read_json(path / "folds.json") or []]


def _run_folds(plan: Folds, entry: Entry, path: Path, options: LayerwiseOptions, progress: Progress) -> list[FoldScore]:
    done, table = _read_folds(path), entry.read()
    if options.folds > len(table.y):
        raise FewstepError(f"`folds` is {options.folds} and {plan.set} has {len(table.y)} rows. Give at most as many.")
    progress.begin(len(done), options.folds)
    depths = [4] * options.folds
    if plan.method.startswith("sgd"):  # as deep as the spectral network of the same fold
        ism = _run_folds(plan._replace(method="ism"), entry, path.with_name(f"{plan.set}-ism"), options, progress)
        depths = [fold.layers or 4 for fold in ism]
    for number, fold in enumerate(_cuts(table, plan.set, depths, options)):
        if number >= len(done):
            score = METHODS[plan.method](fold)
            done.append(score._replace(seconds=None) if options.untimed else score)
            write_json(path / "folds.json", as_json(done))
            progress.step(len(done), None)
    return done


def _cuts(table: Table, name: str, depths: list[int], options: LayerwiseOptions) -> Iterator[Fold]:
    codes = np.unique(table.y, return_inverse=True)[1]
    cuts = KFold(options.folds, shuffle=True, random_state=options.seed).split(table.x)
    for number, (depth, (train, test)) in enumerate(zip(depths, cuts, strict=True)):
        seed = 1000 * options.seed + number
        yield Fold(name, table.x[train], codes[train], table.x[test], codes[test], seed, depth, options.epochs)


def rows(results: Results[LayerwiseOptions, Folds, Measurement]) -> list[Row]:
    """A row for each set and method that has a fold."""
    known, folds = entries(), results.options.folds
    pairs = sorted(results.all, key=lambda pair: list(known).index(pair[0].plan.set))
    plans = [(cell.plan, measurement.folds) for cell, measurement in pairs if measurement.folds]
    return [as_row(summary(plan.set, plan.method, known[plan.set], done, folds)) for plan, done in plans]


def figures(results: Results[LayerwiseOptions, Folds, Measurement]) -> list[Figure]:
    """Accuracy against time, and the claims."""
    claims = {cell.plan.set: measurement.claims for cell, measurement in results.pairs if measurement.claims}
    return [*_tables.figures(rows(results)), *_claims.figures(claims)]
