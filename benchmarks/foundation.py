"""The sine experiment of the MT-net paper at its own setting, and the speed of its training: the README's table.

python benchmarks/foundation.py            trains mtnet and maml, three seeds each, and writes results/foundation.json
"""

import importlib.metadata
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

from fewstep import Experiment
from fewstep._train import first_state, make_segment
from fewstep.runs import create_run, evaluate_run, load, train_run
from fewstep.runs.build import build

HERE = Path(__file__).resolve().parent
SEEDS, PUBLISHED = 3, {"mtnet": 0.49, "maml": 0.71}


def steps_per_second(method: str, steps: int = 5000, repeats: int = 5) -> list[float]:
    """Outer steps a second, compilation apart, one number a repeat; one seed, the paper's meta-batch of 4."""
    built = build(Experiment(method, "sinusoid"))
    tasks = built.tasks(10, 10)
    segment = make_segment(built.learner, tasks, built.optimiser, meta_batch=4, outer=built.outer)
    state, _ = segment(first_state(built.learner, built.optimiser, [0]), tasks.data, 1)
    rates = []
    for _ in range(repeats):
        begin = time.perf_counter()
        state, finite = segment(state, tasks.data, steps)
        assert bool(finite)
        rates.append(steps / (time.perf_counter() - begin))
    return rates


def main(folder: Path) -> None:
    speeds = {method: steps_per_second(method) for method in PUBLISHED}
    rows = []
    for method, published in PUBLISHED.items():
        run = create_run(folder / method, Experiment(method, "sinusoid", seeds=SEEDS))
        begin = time.perf_counter()
        train_run(run)
        seconds = time.perf_counter() - begin
        judged = evaluate_run(load(run.path), shots=(5, 10, 20), steps=(0, 1, 5))
        rows += [
            {
                "method": method,
                "published": published if row["shots"] == 10 and row["inner_steps"] == 1 else None,
                "seconds": seconds,
                **row,
            }
            for row in judged
        ]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=True).stdout
    packages = ("jax", "jaxlib", "optax", "numpy")
    result = {
        "name": "foundation",
        "command": "python benchmarks/foundation.py",
        "protocol": "meta-batch 4, 60,000 steps, one inner step of size 0.01, 10 shots, 600 test tasks",
        "seeds": list(range(SEEDS)),
        "versions": {name: importlib.metadata.version(name) for name in packages}
        | {"python": platform.python_version()},
        "commit": commit.strip(),
        "rows": rows,
        "steps_per_second": speeds,
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "foundation.json").write_text(json.dumps(result, indent=1) + "\n")
    for method, rates in speeds.items():
        print(f"{method}: {sorted(rates)[len(rates) // 2]:,.0f} steps/s ({min(rates):,.0f} to {max(rates):,.0f})")
    for row in rows:
        print(
            row["method"],
            row["shots"],
            row["inner_steps"],
            f"{row['mean']:.3f} ± {row['interval95']:.3f}, seeds {row['seed_std']:.3f}",
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/foundation"))
