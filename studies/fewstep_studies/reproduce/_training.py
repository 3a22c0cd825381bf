"""Trains and evaluates cells, each once: what is finished is found again, what was stopped is resumed."""

import dataclasses
import time
from collections.abc import Callable
from functools import partial
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
from fewstep.files import JSON, read_json, write_json, writing
from fewstep.inspection import inspect
from fewstep.machine.layout import choose, prepare
from fewstep.machine.meter import Meter
from fewstep.machine.provenance import commit
from fewstep.models import Model, evaluate_model, evaluate_places
from fewstep.problems import HIDDEN, Plan
from fewstep.runs import Progress, Run, create_run, differences, load, open_run, steps_within, train_run
from fewstep.training import NotFinite
from fewstep.training import Row as LogRow
from fewstep_studies.reproduce._images import evaluate_images
from fewstep_studies.reproduce._measurement import Measurement, TaskCurve, Training, Updated, Validation, scores_of
from fewstep_studies.reproduce._rows import Changes, read_record
from fewstep_studies.reproduce._speed import Speed, measure
from fewstep_studies.reproduce._study import Cell, ImageOptions, Runner, TrainingOptions

SHOTS = 10  # of every training on curves
UNCLIPPED: Changes = {"inner_clip": 0.0, "clip_norm": 0.0}  # as the papers train
_NOTE_SECONDS = 10.0


def curve_experiment(options: TrainingOptions, method: str, tasks: str, **settings: JSON) -> Experiment:
    """An experiment of this size on curves; validation on 200 tasks draws the training curves."""
    every = max(1, options.steps // 60)
    sizes: JSON = {"seeds": options.seeds, "seed": options.seed, "steps": options.steps, "shots": SHOTS}
    return Experiment(method, tasks, log_every=every, validate_every=every, validation_tasks=200, **(sizes | settings))


def fit(cell: Cell[Training], path: Path, options: TrainingOptions, say: Callable[[str], None]) -> Cell[Training]:
    """The cell with as many steps as the budget of seconds allows; one that was begun keeps those it began with."""
    if (path / "config.json").exists():
        begun = open_run(path).experiment
        cell = with_steps(cell, begun.steps, begun.validate_every)
        _check_same(path, begun, cell.plan.experiment)
        return cell
    budget = options.budget if isinstance(options, ImageOptions) else None
    if budget is None:
        return cell
    say(f"{cell.name}: measuring how many steps fit into {budget / 60:g} minutes.")
    steps = steps_within(cell.plan.experiment, budget)
    return with_steps(cell, steps, max(1, steps // 40))


def _check_same(path: Path, there: Experiment, here: Experiment) -> None:
    """A row must have been trained as the study would train it now, or its command would not make it again."""
    found = [field.name for group in here.groups for field in dataclasses.fields(group) if field.metadata.get(HIDDEN)]
    if differ := differences(there.settings(), here.settings(), without=tuple(found)):
        raise FewstepError(
            f"{path} was trained otherwise than this study does: {', '.join(differ)}. Nothing was changed. Move that "
            "folder away, or choose another `out`."
        )


def with_steps(cell: Cell[Training], steps: int, every: int) -> Cell[Training]:
    """The cell with so many steps, logged and validated so often; its setting says so if the study has others."""
    experiment = cell.plan.experiment.replace(steps=steps, log_every=every, validate_every=every)
    other = {} if steps == cell.plan.experiment.steps else {"steps": steps}
    plan = cell.plan._replace(experiment=experiment)
    return dataclasses.replace(cell, plan=plan, setting={**cell.setting, **other})


def so_far(cell: Cell[Training], path: Path) -> Measurement | None:
    """The curve of the validation of a training that is not finished."""
    if not (path / "config.json").exists():
        return None
    return Measurement(_seconds(path), training=_validations(open_run(path)), times=_times(path))


def run(cell: Cell[Training], path: Path, options: TrainingOptions, progress: Progress) -> Measurement | None:
    """Trains a cell and evaluates it; nothing if a signal stopped it.

    A training in which every seed diverges is a result too.
    """
    done = trained(cell, path, progress)
    if done is None:
        return None
    done = done._replace(training=_validations(open_run(path)), times=_times(path))
    if done.diverged_at:
        return done._replace(diverged_seeds=cell.plan.experiment.seeds)
    model = load(path)
    measurement = done._replace(diverged_seeds=cell.plan.experiment.seeds - len(model.finite))
    if cell.plan.images is not None:
        return evaluate_images(cell, measurement, model, options.n_tasks, progress.say)
    return _evaluate(cell.plan, measurement, model, options.n_tasks)


def trained(cell: Cell[Training], path: Path, progress: Progress) -> Measurement | None:
    """Trains a cell in its folder, or finds it trained: what was noted of it; nothing if a signal stopped it."""
    return _whole(path, cell, progress) or _train(path, cell, progress)


def _whole(path: Path, cell: Cell[Training], progress: Progress) -> Measurement | None:
    """What is noted of a finished training, unless its last checkpoint was damaged since."""
    if (stored := read_json(path / "trained.json")) is None:
        return None
    trained = read_record(Measurement, stored)
    if trained.diverged_at:
        return trained
    model = load(path)
    for note in model.notes:
        progress.say(note)
    return trained if model.step == cell.plan.experiment.steps else None


def _train(path: Path, cell: Cell[Training], progress: Progress) -> Measurement | None:
    run, begin, meter = create_run(path, cell.plan.experiment), time.monotonic(), Meter(None)
    before, noted, diverged = _seconds(path), [begin], None

    def seconds() -> float:
        return before + time.monotonic() - begin

    def step(number: int, row: LogRow | None) -> None:
        meter(number)
        if time.monotonic() - noted[0] > _NOTE_SECONDS:  # a process that is killed leaves its time behind
            noted[0] = time.monotonic()
            write_json(path / "seconds.json", {"seconds": seconds()})
        if row and row.validation is not None:
            with writing(path), (path / "times.csv").open("a") as file:
                file.write(f"{number},{seconds():.1f}\n")
        progress.step(number, row)

    try:
        outcome = train_run(run, progress._replace(step=step))
        write_json(path / "seconds.json", {"seconds": seconds()})
        if outcome.interrupted:
            return None
    except NotFinite as error:
        outcome, diverged = None, error.step
    trained = {"seconds": seconds(), "steps_per_second": meter.value, "diverged_at": diverged, "commit": commit()}
    write_json(path / "trained.json", trained)
    return None if outcome and outcome.signalled else read_record(Measurement, trained)


def _evaluate(plan: Training, measurement: Measurement, model: Model, n_tasks: int) -> Measurement:
    experiment = plan.experiment
    tasks = Plan((experiment.shots,), n_tasks)
    scores = evaluate_model(model, tasks, steps=plan.inner_steps)
    if others := tuple(number for number in plan.shots if number != experiment.shots):
        scores += evaluate_model(model, Plan(others, n_tasks), steps=plan.others)
    places = evaluate_places(model, dict(plan.elsewhere), tasks, steps=plan.inner_steps) if plan.elsewhere else {}
    adapts = model.built.rule is not None and not experiment.conditioned and bool(model.finite)
    return measurement._replace(
        scores=scores_of(scores), elsewhere={place: scores_of(rows) for place, rows in places.items()},
        curves=_curves(model) if adapts else [],
        inside=[_inside(model, seed) for seed in model.finite] if adapts else [],
    )  # fmt: skip


def _seconds(path: Path) -> float:
    return float((read_json(path / "seconds.json") or {}).get("seconds", 0.0))


def _times(path: Path) -> list[tuple[int, float]]:
    """Which step was reached after how many seconds; of a step that was done again, the last time."""
    if not (path / "times.csv").exists():
        return []
    lines = [line.split(",") for line in (path / "times.csv").read_text().splitlines()]
    return sorted({int(step): float(seconds) for step, seconds in lines}.items())


def _validations(run: Run) -> list[Validation]:
    by_step: dict[int, list[float | None]] = {}
    for step, _, _, _, score in run.log():
        if score:
            by_step.setdefault(int(step), []).append(float(score))
    return [Validation(step, scores) for step, scores in by_step.items()]


def _inside(model: Model, seed: int) -> Updated:
    report = inspect(model.built.network.layers, model.finite[seed])
    layers = {layer.path: layer.updated for layer in report.layers}
    return Updated(seed, layers, report.updated_by_logit, report.updated_by_layer, report.updated_by_parameter)


def _curves(model: Model, n_tasks: int = 3) -> list[TaskCurve]:
    """Unseen tasks, and the first whole seed's network before and after one step."""
    learner, meta = model.built.learner, next(iter(model.finite.values()))
    tasks = model.problem.tasks(model.experiment.shots, 100)

    def one(of_data: jax.Array, of_task: jax.Array) -> tuple[jax.Array, ...]:
        support, query = tasks.sample(tasks.data, of_data)
        x, order = jnp.sort(query.x, axis=0), jnp.argsort(query.x[:, 0])
        adapted = learner.adapt(meta, of_task, support, (0, 1))
        before, after = jax.vmap(lambda a: learner.predict(meta, a, x))(adapted)
        return x[:, 0], query.y[order, 0], before[:, 0], after[:, 0], support.x[:, 0], support.y[:, 0]

    keys = task_keys(jax.random.fold_in(jax.random.key(0), UNSEEN), jnp.arange(n_tasks))
    columns = [np.asarray(part) for part in jax.jit(jax.vmap(one), compiler_options=light())(*keys)]
    return [TaskCurve(*(np.round(column[task], 4).tolist() for column in columns)) for task in range(n_tasks)]


def make_devices(cells: list[Cell[Training]]) -> None:
    """Makes the devices of the heaviest cell, because none can be made once a lighter one has started JAX."""
    wanted = [choose(cell.plan.experiment) for cell in cells]
    if any(places.devices > 1 for places in wanted):
        prepare(max(wanted, key=lambda places: places.devices), explicit=False)


def side_by_side(cells: list[Cell[Training]], options: TrainingOptions, say: Callable[[str], None]) -> Speed:
    """The speed of the methods with one seed and with all; `MAML` is what the others are compared with."""
    plain = {cell.title: cell.plan.experiment for cell in cells if not cell.setting}
    if not plain:
        return {}
    alone = {label: experiment.replace(seeds=1) for label, experiment in plain.items()}
    long = options.steps >= 60_000 and options.n_tasks >= 600
    timed = partial(measure, reference="MAML", say=say, seconds=0.6 if long else 0.05, repeats=9 if long else 3)
    return {"alone": timed(alone), **({"together": timed(plain)} if options.seeds > 1 else {})}


TRAININGS: Runner[Any, Training, Measurement] = Runner(
    run, partial(read_record, Measurement), so_far, fit, make_devices
)
