"""The poster's table of layer-wise networks, and what it claims, as one command.

Reference: Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding (poster).
"""

import dataclasses
from collections.abc import Callable
from functools import partial

from fewstep._errors import FewstepError
from fewstep.files import JSON
from fewstep.problems import option
from fewstep_studies.reproduce._rows import read_record
from fewstep_studies.reproduce._study import Options, Runner, Study
from fewstep_studies.reproduce.layerwise._rows import Folds, Measurement, claims_of
from fewstep_studies.reproduce.layerwise._tables import tables

_MAX_SEED = 2**31 // 1000


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


def _later(name: str) -> Callable[..., JSON]:
    """A function of the grid, whose module needs scikit-learn and is imported when the function is first called."""

    def call(*args: object) -> JSON:
        try:
            from fewstep_studies.reproduce.layerwise import _grid
        except ImportError as error:
            raise FewstepError(f"{error}") from None
        return getattr(_grid, name)(*args)

    return call


STUDY: Study[LayerwiseOptions, Folds, Measurement] = Study(
    "layerwise",
    Runner(_later("run"), partial(read_record, Measurement), _later("so_far")), _later("cells"), _later("rows"),
    _later("figures"),
    full=LayerwiseOptions(), quick=LayerwiseOptions(folds=3, epochs=100, quick=True), free=("only", "untimed"),
    context=_later("sets_there"), places=("data_dir",), packages=("scikit-learn",), tables=tables, more=claims_of,
)  # fmt: skip
