"""Fits both layer-wise networks to many rows under a limit of memory, each in a process of its own: peak and seconds.

python benchmarks/layerwise_memory.py

The estimators are at their defaults, calibration included, unless told otherwise. The result goes to
benchmarks/results/layerwise-memory.json. With --method one network is fitted, and its part of that printed.
"""

import dataclasses
import json
import re
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

OUT = Path(__file__).parent / "results" / "layerwise-memory.json"
METHODS = ("spectral", "embedding")


@dataclasses.dataclass(frozen=True)
class Options:
    """Fits of 100,000 rows of 100 numbers, in at most 4 GB."""

    method: Literal["spectral", "embedding"] | None = None
    """Fit this network here, and only print (default: both, and write the result)."""
    rows: int = 100_000
    """Rows."""
    columns: int = 100
    """Columns."""
    gigabytes: float = 4.0
    """The limit of private memory (RLIMIT_DATA)."""
    max_layers: int | None = None
    """The most layers (default: the estimator's)."""
    kernel_features: int | None = None
    """Random features that stand for the kernel (default: the estimator's)."""
    exact_rows: int | None = None
    """Rows that the kernel itself is taken of, where some stand for all (default: the estimator's)."""
    calibrate: bool = True
    """Calibrate the probabilities, which takes a second training."""
    out: Path = OUT
    """The file of the result."""


def table(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of five blobs each, which no straight line parts: logistic regression gets nine rows of ten right."""
    centers = 0.4 * np.random.default_rng(99).standard_normal((10, columns))
    rng = np.random.default_rng(seed)
    blob = rng.integers(10, size=rows)
    return centers[blob] + rng.standard_normal((rows, columns)), blob % 2


def main(options: Options) -> None:
    """One network here, or both, each in a process of its own."""
    if options.method is not None:
        print(json.dumps(fit(options, options.method)))
        return
    from fewstep_studies.reproduce import made_with

    fits = {}
    for method in METHODS:
        print(f"{method}: {options.rows:,} rows of {options.columns} numbers", flush=True)
        fits[method] = _in_a_process(method)
        print(json.dumps(fits[method]), flush=True)
    asked = {"rows": options.rows, "columns": options.columns, "limit_gigabytes": options.gigabytes}
    command = shlex.join(["python", "benchmarks/layerwise_memory.py", *sys.argv[1:]])
    told = {"name": "layerwise-memory", "command": command, **asked, "fits": fits, **made_with("scikit-learn")}
    options.out.write_text(json.dumps(told, indent=1) + "\n")


def _in_a_process(method: str) -> dict[str, Any]:
    command = [sys.executable, __file__, *sys.argv[1:], "--method", method]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{method} ended with code {done.returncode}; nothing was written.")
    return json.loads(done.stdout)


def fit(options: Options, method: str) -> dict[str, Any]:
    """Sets the limit, then fits."""
    limit = int(options.gigabytes * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    from fewstep.layerwise import KernelEmbeddingClassifier, SpectralLayerClassifier

    kind = SpectralLayerClassifier if method == "spectral" else KernelEmbeddingClassifier
    chosen = {name: getattr(options, name) for name in ("max_layers", "kernel_features", "exact_rows")}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    x, y = table(options.rows, options.columns, 0)
    begin = time.perf_counter()
    model = kind(calibrate=options.calibrate, random_state=0, **chosen).fit(x, y)
    seconds = time.perf_counter() - begin
    status = Path("/proc/self/status").read_text()  # ru_maxrss would count what the process was forked from
    peak = int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024 / 1e6
    return {
        "method": method, "rows": options.rows, "columns": options.columns, "limit_gigabytes": options.gigabytes,
        "peak_megabytes": round(peak, 1), "seconds": round(seconds, 2), "layers": model.n_layers_,
        "stopped": model.stopped_, "accuracy_on_2000_new_rows": model.score(*table(2000, options.columns, 1)),
        "settings": model.get_params(),
    }  # fmt: skip


if __name__ == "__main__":
    main(tyro.cli(Options))
