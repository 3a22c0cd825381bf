"""Runs a set with a method, fold by fold; what is done is kept and not done again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from fewstep._errors import FewstepError
from fewstep.files import read_json, write_json
from fewstep.reproduce._rows import as_json, read_record
from fewstep.reproduce.layerwise._methods import METHODS, Fold
from fewstep.reproduce.layerwise._rows import FoldScore
from fewstep.reproduce.layerwise._sets import Entry, Table
from fewstep.runs import Progress


def read_folds(path: Path) -> list[FoldScore]:
    """The folds of a cell that are done."""
    return [read_record(FoldScore, fold) for fold in read_json(path / "folds.json") or []]


def run_folds(plan: Any, entry: Entry, path: Path, options: Any, progress: Progress) -> list[FoldScore]:
    """The folds of a cell, all or those that are missing, written one by one."""
    done = read_folds(path)
    table = entry.read()
    if options.folds > len(table.y):
        raise FewstepError(f"`folds` is {options.folds} and {plan.set} has {len(table.y)} rows. Give at most as many.")
    progress.begin(len(done), options.folds)
    depths = [4] * options.folds
    if plan.method.startswith("sgd"):  # as deep as the spectral network of the same fold
        ism = plan._replace(method="ism")
        known = run_folds(ism, entry, path.with_name(f"{plan.set}-ism"), options, progress)
        depths = [fold.layers or 4 for fold in known]
    for number, fold in enumerate(_cuts(table, plan.set, depths, options)):
        if number >= len(done):
            score = METHODS[plan.method](fold)
            done.append(score._replace(seconds=None) if options.untimed else score)
            write_json(path / "folds.json", as_json(done))
            progress.step(len(done), None)
    return done


def _cuts(table: Table, name: str, depths: list[int], options: Any) -> Iterator[Fold]:
    codes = np.unique(table.y, return_inverse=True)[1]
    cuts = KFold(options.folds, shuffle=True, random_state=options.seed).split(table.x)
    for number, (depth, (train, test)) in enumerate(zip(depths, cuts, strict=True)):
        seed = 1000 * options.seed + number
        yield Fold(name, table.x[train], codes[train], table.x[test], codes[test], seed, depth, options.epochs)
