"""Published values: the poster's table (mean and deviation over ten folds), and the authors' later files for W_s.

`poster`: Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding, the table of Experiment 4. `later`: the
summaries of ten-fold runs of W_s in endsley/NIK_Thm1_Release_V2; the poster's are of older code.
"""

import csv
from importlib.resources import files
from typing import NamedTuple

COLUMNS = ("L", "train", "test", "seconds", "H*", "MSE", "CE", "C", "T")
Pair = tuple[float, float]


class Published(NamedTuple):
    """One row: the bandwidth, and of each column mean and deviation."""

    sigma: float | None
    values: dict[str, Pair]


def _read() -> dict[tuple[str, str, str], Published]:
    text = files("fewstep.reproduce.layerwise").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (row["source"], row["set"], row["method"]): Published(
            float(row["sigma"]) if row["sigma"] else None,
            {name: (float(row[name]), float(row[f"{name} std"])) for name in COLUMNS},
        )
        for row in csv.DictReader(text.splitlines())
    }


ALL = _read()  # by source, set and method
