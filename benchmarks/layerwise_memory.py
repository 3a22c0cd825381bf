"""Fits a layer-wise network to many rows under a limit of memory, and tells its peak.

python benchmarks/layerwise_memory.py --method spectral --gigabytes 4
"""

import dataclasses
import json
import re
import resource
import sys
import time
from pathlib import Path
from typing import Literal

import numpy as np
import tyro


@dataclasses.dataclass(frozen=True)
class Options:
    """A fit of 100,000 rows of 100 numbers without calibration, by default of four layers and in at most 4 GB."""

    method: Literal["spectral", "embedding"] = "spectral"
    """Which network."""
    rows: int = 100_000
    """Rows."""
    columns: int = 100
    """Columns."""
    gigabytes: float = 4.0
    """The limit of private memory (RLIMIT_DATA)."""
    max_layers: int = 4
    """The most layers."""
    kernel_features: int = 1024
    """Random features that stand for the kernel."""
    exact_rows: int = 4096
    """Rows that the kernel itself is taken of, where some stand for all."""


def table(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes, one within a shell of the other in five of the columns, the rest noise."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns))
    return x, (np.sum(x[:, :5] ** 2, axis=1) > 4.35).astype(int)


def main(options: Options) -> None:
    """Sets the limit, then fits."""
    limit = int(options.gigabytes * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    from fewstep.layerwise import KernelEmbeddingClassifier, SpectralLayerClassifier

    kind = SpectralLayerClassifier if options.method == "spectral" else KernelEmbeddingClassifier
    x, y = table(options.rows, options.columns)
    test_x, test_y = table(2000, options.columns)
    begin = time.perf_counter()
    model = kind(
        max_layers=options.max_layers,
        kernel_features=options.kernel_features,
        exact_rows=options.exact_rows,
        calibrate=False,
        random_state=0,
    ).fit(x, y)
    seconds = time.perf_counter() - begin
    status = Path("/proc/self/status").read_text()  # ru_maxrss would count what the process was forked from
    peak = int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1e6
    told = {
        "seconds": seconds,
        "peak_gigabytes": peak,
        "accuracy": model.score(test_x, test_y),
        "stopped": model.stopped_,
    }
    json.dump(dataclasses.asdict(options) | told, sys.stdout)
    print()


if __name__ == "__main__":
    main(tyro.cli(Options))
