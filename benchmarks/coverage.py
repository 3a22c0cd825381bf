"""How often intervals hold the values of tasks that were held out: calibrated by task, and on all rows together.

python benchmarks/coverage.py --data-dir FOLDER --out benchmarks/results/coverage.json

The four sets of `fewstep reproduce curves`, in several splits by task; cheap methods, trained for a few steps. Both
calibrations get the same answers on the validation tasks, and are evaluated on the same answers on the test tasks.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import jax
import numpy as np

from fewstep import data
from fewstep.experiments import Experiment
from fewstep.files import write_json
from fewstep.models import Calibration, Model, calibrate, coverage_by_task, fit_table, residual_of
from fewstep.problems import IN_MEMORY, Answers, Value, answer_tasks, draws_of
from fewstep.tables import Rows, Table
from fewstep_studies.reproduce.curves import _measure
from fewstep_studies.reproduce.curves._sets import entries

STEPS = {"ridge": 500, "gaussian": 600}
EFFORT = {"auto": 0.3}  # of a portfolio, which calibrates by weights that were chosen crosswise
SHOTS, LEVEL = (3, 5, 10), 0.9


Shapes = tuple[tuple[int, ...], ...]
_made: dict[tuple[str, Shapes], Model] = {}  # a model of tables of the same shapes, for its programs


def fitted(table: Table, method: str) -> Model:
    """A method after a few steps on a table's training tasks."""
    if method in EFFORT:
        portfolio = Experiment(
            method, IN_MEMORY, seed=0, shots=max(SHOTS), min_shots=1, effort=EFFORT[method], member_seeds=1,
            schema=table.schema.to_dict(),
        )  # fmt: skip
        shapes = method, tuple((*part.x.shape, len(part.names), max(part.counts)) for part in table.parts.values())
        model = fit_table(portfolio, table, like=_made.get(shapes)).model
        _made.setdefault(shapes, model)
        return model
    steps = STEPS[method]
    own: dict[str, Value] = {"seeds": 3, "min_shots": min(SHOTS)} if method == "ridge" else {"seeds": 1}
    experiment = Experiment(
        method, IN_MEMORY, seed=0, steps=steps, shots=max(SHOTS), log_every=steps // 10, validate_every=steps // 10,
        patience=0, schema=table.schema.to_dict(), **own,
    )  # fmt: skip
    return fit_table(experiment, table).model


def ask(model: Model, rows: Rows, shots: int) -> Answers:
    """The answers on all tasks of some rows."""
    return answer_tasks(
        model.learner(), tuple(model.finite.values()), rows, shots=shots, steps=(model.steps,), draws=draws_of(rows),
        samples=model.samples, within=max(SHOTS),
    )  # fmt: skip


def together(held_out: Answers, new: Answers) -> tuple[np.ndarray, np.ndarray]:
    """As it was before: the quantile of all rows' errors. The share inside, and half the width, of each new task."""
    counts = held_out.weight > 0
    wrong = np.abs(held_out.mean[:, :, 0, :, 0] - held_out.y[..., 0])[counts]
    floor = np.sqrt(np.mean(np.square(wrong)))
    ratio = np.quantile(wrong / np.hypot(held_out.spread[:, :, 0, :, 0][counts], floor), LEVEL)
    half = ratio * np.hypot(new.spread[:, :, 0, :, 0], floor)
    inside = np.abs(new.mean[:, :, 0, :, 0] - new.y[..., 0]) <= half
    return _mean(inside, new), _mean(half, new)


def by_task(known: Calibration, new: Answers, shots: int) -> tuple[np.ndarray, np.ndarray]:
    """As it is: the share inside, and half the width, of each new task."""
    half = np.broadcast_to(known.half(new.spread[:, :, 0], residual_of(new), shots, LEVEL), new.y.shape)
    return coverage_by_task(known, new, shots, LEVEL), _mean(half[..., 0], new)


def _mean(values: np.ndarray, answers: Answers) -> np.ndarray:
    return (values * answers.weight).sum((1, 2)) / answers.weight.sum((1, 2))


def row(name: str, method: str, splits: int) -> dict[str, object]:
    """One set and method: over the test tasks of all splits, and over 3, 5 and 10 rows learned from."""
    begin, before, after, validation = time.monotonic(), [], [], 0
    for split in range(splits):
        table = _measure.prepared(entries()[name], split)
        model, validation = fitted(table, method), len(table.parts["validation"].names)
        for shots in SHOTS:
            new = ask(model, table.parts["test"], shots)
            if method in EFFORT:  # it was trained on the validation tasks too
                assert model.calibration is not None
                after.append(by_task(model.calibration, new, shots))
                continue
            held_out = ask(model, table.parts["validation"], shots)
            before.append(together(held_out, new))
            after.append(by_task(calibrate({shots: held_out}), new, shots))
    by = np.concatenate([shares for shares, _ in after])
    found: dict[str, object] = {
        "set": name, "method": method, "calibration_tasks": validation, "cases": len(by), "by_task": _summary(by),
        "seconds": round(time.monotonic() - begin, 1),
    }  # fmt: skip
    if before:
        old = np.concatenate([shares for shares, _ in before])
        width = float(np.mean([b[1].mean() / a[1].mean() for a, b in zip(before, after, strict=True)]))
        found |= {"before": _summary(old), "width_ratio": round(width, 3)}
    return found


def _summary(shares: np.ndarray) -> dict[str, float]:
    """The mean share inside, that of the task at the lowest tenth, and the mean of the tenth below."""
    tail = np.sort(shares)[: max(1, len(shares) // 10)].mean()
    named = {"mean": shares.mean(), "lowest_tenth_from": np.quantile(shares, 0.1), "lowest_tenth_mean": tail}
    return {text: round(float(value), 3) for text, value in named.items()}


def main() -> None:
    """Prints one line for each set and method, and writes them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=list(STEPS), choices=[*STEPS, *EFFORT])
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    data.look_in(words.data_dir)
    before = json.loads(words.out.read_text()) if words.out and words.out.exists() else {}
    rows = before.get("rows", []) if before.get("splits") == words.splits else []  # what it has is not computed again
    done = {(one["set"], one["method"]) for one in rows}
    for method in words.methods:
        for name in words.sets or list(entries()):
            if (name, method) in done:
                continue
            rows.append(row(name, method, words.splits))
            _made.clear()
            jax.clear_caches()  # of another set's shapes
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            if words.out is not None:
                command = " ".join(["python benchmarks/coverage.py", *sys.argv[1:]])
                write_json(
                    words.out,
                    {"command": command, "level": LEVEL, "shots": SHOTS, "splits": words.splits, "rows": rows},
                )
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
