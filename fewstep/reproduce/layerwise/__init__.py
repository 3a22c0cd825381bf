"""The poster's table of layer-wise networks, and what it claims, as one command.

Reference: Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding (poster). This module needs no
scikit-learn; what runs the study is imported when it is first needed.
"""

import dataclasses
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from fewstep._errors import FewstepError
from fewstep.reproduce._figure import Figure
from fewstep.reproduce._options import Options, option
from fewstep.reproduce._rows import Row
from fewstep.reproduce._study import Cell, Results, Runner, Study
from fewstep.reproduce.layerwise import _tables
from fewstep.reproduce.layerwise._rows import Measurement, as_row, claims_of, read_measurement, summary
from fewstep.runs import Progress

CLAIMS = "claims"
_QUICK = ("random", "wine"), ("ism", "ws", "svm", CLAIMS)  # sets and methods
_CLAIM_SETS = ("random", "adversarial", "wine")
_MAX_SEED = 2**31 // 1000
METHODS = ("ism", "ism-balanced", "ws", "svm", "forest", "mlp", "sgd-ce", "sgd-mse", CLAIMS)  # what takes long last


@dataclasses.dataclass(frozen=True)
class LayerwiseOptions(Options):
    """How much is run: folds of each cell, the most epochs of a network."""

    folds: int = option(10, "Folds of the cross-validation.", min=2)
    untimed: bool = option(False, "Note no seconds, so that the folds may run beside other work.")
    epochs: int = 5000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seed > _MAX_SEED:
            raise FewstepError(
                f"`seed` is {self.seed}. Give 0 to {_MAX_SEED}: a fold's seed is 1000 times it, and scikit-learn takes "
                "32 bits."
            )

    def size(self) -> str:
        """The size in words."""
        return f"{self.folds} folds, seed {self.seed}, at most {self.epochs:,} epochs"


class Folds(NamedTuple):
    """The plan of a cell: a set and a method, fold by fold, or the claims on a set."""

    set: str
    method: str
    length: int
    work: int = 1


def _modules() -> tuple[ModuleType, ModuleType]:
    try:
        from fewstep.reproduce.layerwise import _folds, _sets
    except ImportError as error:
        raise FewstepError(f"{error}") from None
    return _folds, _sets


def cells(options: LayerwiseOptions) -> list[Cell[Folds]]:
    """Every set with every method, and the claims on some; a quick run takes a few, unless `only` names others."""
    _, sets = _modules()
    pairs = [(name, method) for method in METHODS for name in sets.entries()]
    pairs = [pair for pair in pairs if pair[1] != CLAIMS or pair[0] in _CLAIM_SETS]
    if options.quick and not options.only:
        pairs = [(name, method) for name, method in pairs if name in _QUICK[0] and method in _QUICK[1]]
    return [
        Cell(f"{name}-{method}", method, {}, Folds(name, method, options.folds), groups=(name, method))
        for name, method in pairs
    ]


def run(cell: Cell[Folds], path: Path, options: LayerwiseOptions, progress: Progress) -> Measurement:
    """The folds of a cell, written one by one, or the claims."""
    folds, sets = _modules()
    entry = sets.entries()[cell.plan.set]
    if cell.plan.method != CLAIMS:
        return Measurement(folds.run_folds(cell.plan, entry, path, options, progress))
    progress.begin(0, 1)
    from fewstep.reproduce.layerwise import _claims

    return Measurement(claims=_claims.measure(cell.plan.set, entry, options.seed))


def _so_far(cell: Cell[Folds], path: Path) -> Measurement | None:
    folds, _ = _modules()
    known = folds.read_folds(path)
    return Measurement(known) if known else None


def rows(results: Results[LayerwiseOptions, Folds, Measurement]) -> list[Row]:
    """A row for each set and method that has a fold."""
    _, sets = _modules()
    known = sets.entries()
    pairs = sorted(results.all, key=lambda pair: list(known).index(pair[0].plan.set))
    return [
        as_row(summary(cell.plan.set, cell.plan.method, known[cell.plan.set], found.folds, results.options.folds))
        for cell, found in pairs if found.folds
    ]  # fmt: skip


def figures(results: Results[LayerwiseOptions, Folds, Measurement]) -> list[Figure]:
    """Accuracy against time, and the claims."""
    from fewstep.reproduce.layerwise import _claims

    claims = {cell.plan.set: found.claims for cell, found in results.pairs if found.claims}
    return [*_tables.figures(rows(results)), *_claims.figures(claims)]


def _more(results: Results[LayerwiseOptions, Folds, Measurement]) -> dict[str, Any]:
    return {"claims": claims_of({cell.plan.set: found for cell, found in results.pairs})}


def _sets_there() -> dict[str, str]:
    _, sets = _modules()
    return {"sets": ", ".join(sets.entries())}


STUDY = Study(
    "layerwise",
    "Networks without backpropagation, learned layer by layer",
    "The sets and methods of the poster, and the claims on some of the sets.",
    "Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding (poster).",
    "",
    Runner(run, read_measurement, _so_far),
    cells,
    rows,
    figures,
    full=LayerwiseOptions(),
    quick=LayerwiseOptions(folds=3, epochs=100, quick=True),
    paper={"folds": 10},
    free=("only", "untimed"),
    context=_sets_there,
    places=("data_dir",),
    packages=("scikit-learn",),
    tables=_tables.tables,
    more=_more,
)
