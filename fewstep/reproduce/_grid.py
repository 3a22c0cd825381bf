"""Trains and judges the cells of a study, each once: what is finished is found again, what was stopped goes on."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import jax
import numpy as np

from fewstep._evaluate import quick
from fewstep._train import NotFinite
from fewstep._train import Row as LogRow
from fewstep.inspection import inspect
from fewstep.reproduce._study import Cell, Judged
from fewstep.runs import Model, Progress, create_run, evaluate_run, load, train_run
from fewstep.runs.files import finite, read_json, write_json

_UNSEEN = 7  # the stream of tasks that are only looked at


def run_cell(folder: Path, cell: Cell, progress: Progress, n_tasks: int) -> Judged | None:
    """Trains a cell and judges it, or finds that done before; nothing if a signal stopped it.

    A training in which every seed diverges is a result too, and is judged as such.
    """
    path = folder / "cells" / cell.name
    if (known := read_json(path / "judged.json")) is not None:
        return known
    trained = read_json(path / "trained.json") or _train(path, cell, progress)
    if trained is None:
        return None
    judged = finite(trained | _judge(cell, None if trained["diverged_at"] else load(path), n_tasks))
    write_json(path / "judged.json", judged)
    return judged


def _train(path: Path, cell: Cell, progress: Progress) -> Judged | None:
    run, begin, rates = create_run(path, cell.experiment), time.monotonic(), _Rates(progress)
    spent = (read_json(path / "stopped.json") or {}).get("seconds", 0.0)
    seconds, diverged = lambda: spent + time.monotonic() - begin, None
    try:
        if train_run(run, rates.progress).interrupted:
            write_json(path / "stopped.json", {"seconds": seconds()})
            return None
    except NotFinite as error:
        diverged = error.step
    trained = {"seconds": seconds(), "steps_per_second": rates.median, "diverged_at": diverged}
    write_json(path / "trained.json", trained)
    return trained


class _Rates:
    """A watcher that also notes the steps a second between its calls."""

    def __init__(self, progress: Progress) -> None:
        self.rates: list[float] = []
        self.last: tuple[float, int] | None = None
        self.pass_on = progress.step
        self.progress = progress._replace(step=self.step)

    def step(self, number: int, row: LogRow | None) -> None:
        now = time.monotonic()
        if self.last is not None:
            self.rates.append((number - self.last[1]) / max(now - self.last[0], 1e-9))
        self.last = (now, number)
        self.pass_on(number, row)

    @property
    def median(self) -> float | None:
        return median(self.rates) if self.rates else None


def _judge(cell: Cell, model: Model | None, n_tasks: int) -> Judged:
    seeds = cell.experiment.seeds
    if model is None:
        return {"diverged_seeds": seeds, "errors": [], "training": [], "curves": [], "inside": []}
    errors = evaluate_run(model, shots=(cell.experiment.shots,), steps=cell.steps, n_tasks=n_tasks)
    others = tuple(number for number in cell.shots if number != cell.experiment.shots)
    if others:
        errors += evaluate_run(model, shots=others, steps=(1,), n_tasks=n_tasks)
    return {
        "diverged_seeds": seeds - len(model.whole),
        "errors": errors,
        "training": _training(model),
        "curves": _curves(model) if model.whole else [],
        "inside": [_inside(model, number) for number in range(len(model.whole))],
    }


def _training(model: Model) -> list[dict[str, object]]:
    """The validation error of every seed, at each step it was taken."""
    found: dict[int, list[float]] = {}
    for step, _, _, _, score in model.run.log():
        if score:
            found.setdefault(int(step), []).append(float(score))
    return [{"step": step, "errors": scores} for step, scores in found.items()]


def _inside(model: Model, number: int) -> dict[str, object]:
    report = inspect(model.built.network.layers, model.whole[number])
    return {
        "layers": {layer.path: layer.updated for layer in report.layers},
        "by_logit": report.updated_by_logit,
        "by_layer": report.updated_by_layer,
        "by_parameter": report.updated_by_parameter,
    }


def _curves(model: Model, n_tasks: int = 3) -> list[dict[str, list[float]]]:
    """Unseen tasks: the true curve, the support, and the first seed's network before and after one step."""
    learner, meta = model.built.learner, model.whole[0]
    tasks = model.built.tasks(model.run.experiment.shots, 100)

    def one(key: jax.Array) -> tuple[jax.Array, ...]:
        support, query = tasks.sample(tasks.data, key)
        x = jax.numpy.sort(query.x, axis=0)
        order = jax.numpy.argsort(query.x[:, 0])
        before, after = jax.vmap(lambda a: learner.predict(meta, a, x))(learner.adapt(meta, key, support, (0, 1)))
        return x[:, 0], query.y[order, 0], before[:, 0], after[:, 0], support.x[:, 0], support.y[:, 0]

    keys = jax.random.split(jax.random.fold_in(jax.random.key(0), _UNSEEN), n_tasks)
    made = jax.jit(jax.vmap(one), compiler_options=quick())(keys)
    names = ("x", "true", "before", "after", "support_x", "support_y")
    arrays = dict(zip(names, map(np.asarray, made), strict=True))
    return [{name: np.round(array[task], 4).tolist() for name, array in arrays.items()} for task in range(n_tasks)]


def train_all(
    folder: Path, cells: list[Cell], n_tasks: int, progress: Callable[[int], Progress]
) -> list[Judged] | None:
    """What was measured of every cell; nothing if a signal stopped the work."""
    judged = []
    for number, cell in enumerate(cells):
        found = run_cell(folder, cell, progress(number), n_tasks)
        if found is None:
            return None
        judged.append(found)
    return judged
