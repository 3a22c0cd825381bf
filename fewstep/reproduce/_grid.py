"""Trains and judges the cells of a study, each once: what is finished is found again, what was stopped goes on."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._errors import FewstepError
from fewstep._outer import task_keys
from fewstep._streams import UNSEEN
from fewstep.compute import light
from fewstep.experiments import Experiment
from fewstep.files import finite, read_json, write_json, writing
from fewstep.inspection import inspect
from fewstep.machine.meter import Meter
from fewstep.machine.provenance import commit
from fewstep.reproduce._images import judge_images
from fewstep.reproduce._study import Cell, Judged
from fewstep.runs import Model, Progress, Run, create_run, evaluate_places, evaluate_run, load, open_run, train_run
from fewstep.runs.budget import steps_within
from fewstep.runs.settings import differences
from fewstep.training import NotFinite
from fewstep.training import Row as LogRow

_NOTE_SECONDS = 10.0


def place(folder: Path, cell: Cell) -> Path:
    """The folder of a cell."""
    return folder / "cells" / cell.name


def fitted(folder: Path, cell: Cell, budget: float | None) -> Cell:
    """The cell with as many steps as the budget of seconds allows; one that was begun keeps those it began with."""
    if begun(folder, cell):
        known = open_run(place(folder, cell)).experiment
        made = with_steps(cell, known.steps, known.validate_every)
        _check_same(place(folder, cell), known, made.experiment)
        return made
    if budget is None:
        return cell
    steps = steps_within(cell.experiment, budget)
    return with_steps(cell, steps, max(1, steps // 40))


def _check_same(path: Path, known: Experiment, wanted: Experiment) -> None:
    """A row must have been trained as the study would train it now, or its command would not make it again."""
    if differ := differences(dataclasses.asdict(known), dataclasses.asdict(wanted)):
        raise FewstepError(
            f"{path} was trained otherwise than this study does: {', '.join(differ)}. Nothing was changed. Move that "
            "folder away, or choose another --out."
        )


def with_steps(cell: Cell, steps: int, every: int) -> Cell:
    """The cell with so many steps, logged and validated so often; told in its setting if the study has others."""
    experiment = dataclasses.replace(cell.experiment, steps=steps, log_every=every, validate_every=every)
    other = {} if steps == cell.experiment.steps else {"steps": steps}
    return cell._replace(experiment=experiment, setting=cell.setting | other)


def begun(folder: Path, cell: Cell) -> bool:
    """Whether the training of a cell has begun."""
    return (place(folder, cell) / "config.json").exists()


def so_far(folder: Path, cell: Cell) -> Judged:
    """What is known of a cell whose training is not finished: the curve of its validation."""
    path = place(folder, cell)
    spent = (read_json(path / "seconds.json") or {}).get("seconds", 0.0)
    return {"seconds": spent, "errors": [], "training": _training(open_run(path)), "times": times(path)}


def finished(folder: Path, cell: Cell) -> Judged | None:
    """What was measured of a cell, if it is finished."""
    return read_json(place(folder, cell) / "judged.json")


def run_cell(folder: Path, cell: Cell, progress: Progress, n_tasks: int) -> Judged | None:
    """Trains a cell and judges it, or finds that done before; nothing if a signal stopped it.

    A training in which every seed diverges is a result too, and is judged as such.
    """
    path = place(folder, cell)
    if (known := finished(folder, cell)) is not None:
        return known
    trained = _whole(path, cell, progress) or _train(path, cell, progress)
    if trained is None:
        return None
    judged = finite(trained | _judge(cell, path, n_tasks, progress.say, diverged=bool(trained["diverged_at"])))
    write_json(path / "judged.json", judged)
    return judged


def _whole(path: Path, cell: Cell, progress: Progress) -> Judged | None:
    """What is noted of a finished training, unless its last checkpoint was damaged since."""
    trained = read_json(path / "trained.json")
    if trained is None or trained["diverged_at"]:
        return trained
    model = load(path)
    for note in model.notes:
        progress.say(note)
    return trained if model.step == cell.experiment.steps else None


def _train(path: Path, cell: Cell, progress: Progress) -> Judged | None:
    run, begin, meter = create_run(path, cell.experiment), time.monotonic(), Meter(None)
    before = (read_json(path / "seconds.json") or {}).get("seconds", 0.0)
    noted, diverged = [begin], None

    def seconds() -> float:
        return before + time.monotonic() - begin

    def step(number: int, row: LogRow | None) -> None:
        meter(number)
        if time.monotonic() - noted[0] > _NOTE_SECONDS:  # a process that is killed leaves its time behind
            noted[0] = time.monotonic()
            write_json(path / "seconds.json", {"seconds": seconds()})
        if row and row.validation is not None:
            _note_time(path, number, seconds())
        progress.step(number, row)

    try:
        outcome = train_run(run, progress._replace(step=step))
        write_json(path / "seconds.json", {"seconds": seconds()})
        if outcome.interrupted:
            return None
    except NotFinite as error:
        outcome, diverged = None, error.step
    trained = {
        "seconds": seconds(), "steps_per_second": meter.value, "diverged_at": diverged, "commit": commit(),
    }  # fmt: skip
    write_json(path / "trained.json", trained)
    return None if outcome and outcome.signalled else trained


def _note_time(path: Path, step: int, seconds: float) -> None:
    """Adds a line to the list of when which step was reached."""
    with writing(path), (path / "times.csv").open("a") as file:
        file.write(f"{step},{seconds:.1f}\n")


def _judge(cell: Cell, path: Path, n_tasks: int, say: Callable[[str], None], *, diverged: bool) -> Judged:
    if diverged:
        lost: Judged = {
            "diverged_seeds": cell.experiment.seeds,
            "errors": [],
            "elsewhere": {},
            "curves": [],
            "inside": [],
        }
        lost |= {"times": times(path), "episodes": []}
        return lost | {"training": _training(open_run(path))}
    model = load(path)
    if cell.tests:
        return {**judge_images(cell, model, n_tasks, say), "training": _training(model.run), "times": times(path)}
    errors = evaluate_run(model, shots=(cell.experiment.shots,), steps=cell.steps, n_tasks=n_tasks)
    others = tuple(number for number in cell.shots if number != cell.experiment.shots)
    if others:
        errors += evaluate_run(model, shots=others, steps=(1,), n_tasks=n_tasks)
    size: dict[str, Any] = {"shots": (cell.experiment.shots,), "steps": cell.steps, "n_tasks": n_tasks}
    adapts = model.built.rule is not None and not cell.experiment.conditioned
    return {
        "diverged_seeds": cell.experiment.seeds - len(model.whole),
        "errors": errors,
        "elsewhere": evaluate_places(model, dict(cell.elsewhere), **size) if cell.elsewhere else {},
        "training": _training(model.run),
        "curves": _curves(model) if model.whole and adapts else [],
        "inside": [_inside(model, seed) for seed in model.whole] if adapts else [],
    }


def times(path: Path) -> list[tuple[int, float]]:
    """Which step was reached after how many seconds; of a step that was done again, the last time."""
    if not (path / "times.csv").exists():
        return []
    lines = [line.split(",") for line in (path / "times.csv").read_text().splitlines()]
    return sorted({int(step): float(seconds) for step, seconds in lines}.items())


def _training(run: Run) -> list[dict[str, object]]:
    """The validation error of every seed, at each step it was taken."""
    found: dict[int, list[float]] = {}
    for step, _, _, _, score in run.log():
        if score:
            found.setdefault(int(step), []).append(float(score))
    return [{"step": step, "errors": scores} for step, scores in found.items()]


def _inside(model: Model, seed: int) -> dict[str, object]:
    report = inspect(model.built.network.layers, model.whole[seed])
    return {
        "seed": seed,
        "layers": {layer.path: layer.updated for layer in report.layers},
        "by_logit": report.updated_by_logit,
        "by_layer": report.updated_by_layer,
        "by_parameter": report.updated_by_parameter,
    }


def _curves(model: Model, n_tasks: int = 3) -> list[dict[str, list[float]]]:
    """Unseen tasks: the true curve, the support, and the first whole seed's network before and after one step."""
    learner, meta = model.built.learner, next(iter(model.whole.values()))
    tasks = model.built.problem.tasks(model.run.experiment.shots, 100)

    def one(of_data: jax.Array, of_task: jax.Array) -> tuple[jax.Array, ...]:
        support, query = tasks.sample(tasks.data, of_data)
        x, order = jnp.sort(query.x, axis=0), jnp.argsort(query.x[:, 0])
        adapted = learner.adapt(meta, of_task, support, (0, 1))
        before, after = jax.vmap(lambda a: learner.predict(meta, a, x))(adapted)
        return x[:, 0], query.y[order, 0], before[:, 0], after[:, 0], support.x[:, 0], support.y[:, 0]

    keys = task_keys(jax.random.fold_in(jax.random.key(0), UNSEEN), jnp.arange(n_tasks))
    made = jax.jit(jax.vmap(one), compiler_options=light())(*keys)
    names = ("x", "true", "before", "after", "support_x", "support_y")
    arrays = dict(zip(names, map(np.asarray, made), strict=True))
    return [{key: np.round(array[task], 4).tolist() for key, array in arrays.items()} for task in range(n_tasks)]
