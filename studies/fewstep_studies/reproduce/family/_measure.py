"""How a cell of the family is run: a training, with what its step takes; or the timing of several."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fewstep._outer import over_tasks
from fewstep.experiments import Experiment, build
from fewstep.machine.layout import choose
from fewstep.machine.provenance import commit
from fewstep.models import evaluate_model
from fewstep.problems import Plan
from fewstep.runs import Progress, load, steps_within
from fewstep_studies.reproduce import _training
from fewstep_studies.reproduce._images import evaluate_images
from fewstep_studies.reproduce._measurement import Measurement, Training, scores_of
from fewstep_studies.reproduce._rows import read_record
from fewstep_studies.reproduce._speed import Rate, measure
from fewstep_studies.reproduce._study import Cell, Runner
from fewstep_studies.reproduce.family._cells import REFERENCE, AnyPlan, FamilyOptions, Timing, with_plan

_VALIDATIONS = 5  # of a training on images
_NOTHING = Measurement(0.0)


class StepNeeds(NamedTuple):
    """What a step of one seed needs, whatever the machine: numbers that are learned, and the temporary memory of the
    compiled outer gradient."""

    meta_parameters: int = 0
    memory_mb: float | None = None


class Found(NamedTuple):
    """What was measured of a cell: of a training with its minutes, if it was given some, or of a timing."""

    measurement: Measurement = _NOTHING
    needs: StepNeeds = StepNeeds()
    minutes: float | None = None
    rates: Mapping[str, Rate] = {}
    commit: str | None = None


def fit(cell: Cell[AnyPlan], path: Path, options: FamilyOptions, say: Callable[[str], None]) -> Cell[AnyPlan]:
    """The cell with as many steps as fit into its minutes, of a core that does nothing else: counted is the time of the
    processor. One that was begun keeps its steps."""
    if isinstance(cell.plan, Timing):
        return cell
    own = with_plan(cell, cell.plan)
    if cell.plan.images is None or (path / "config.json").exists():
        return _widened(_training.fit(own, path, options, say))
    say(f"{cell.name}: measuring how many steps fit into {options.minutes:g} minutes of one core.")
    steps = steps_within(
        cell.plan.experiment, 60 * options.minutes, clock=time.process_time, validations=_VALIDATIONS
    )  # fmt: skip
    return _widened(_training.with_steps(own, steps, max(1, steps // _VALIDATIONS)))


def _widened(cell: Cell[Training]) -> Cell[AnyPlan]:
    plan: AnyPlan = cell.plan
    return with_plan(cell, plan)


def run(cell: Cell[AnyPlan], path: Path, options: FamilyOptions, progress: Progress) -> Found | None:
    """Trains a cell and evaluates it, or times its methods in turns; nothing if a signal stopped it."""
    if isinstance(cell.plan, Timing):
        seconds, repeats = (0.02, 2) if options.quick else (0.3, 7)
        rates = measure(dict(cell.plan.experiments), REFERENCE, progress.say, seconds=seconds, repeats=repeats)
        return Found(rates=rates, commit=commit())
    training = with_plan(cell, cell.plan)
    done = _training.trained(training, path, progress)
    if done is None:
        return None
    experiment = cell.plan.experiment
    found = Found(done, needs_of(experiment), commit=done.commit)
    if cell.plan.images:
        found = found._replace(minutes=options.minutes)
    if done.diverged_at:
        return found._replace(measurement=done._replace(diverged_seeds=experiment.seeds))
    model = load(path)
    done = done._replace(diverged_seeds=experiment.seeds - len(model.finite))
    if cell.plan.images:
        return found._replace(measurement=evaluate_images(training, done, model, options.n_tasks, progress.say))
    scores = evaluate_model(model, Plan((experiment.shots,), options.n_tasks), steps=cell.plan.inner_steps)
    return found._replace(measurement=done._replace(scores=scores_of(scores)))


def needs_of(experiment: Experiment) -> StepNeeds:
    """What a step needs: its outer gradient is compiled as it is laid out in training, and not run."""
    built = build(experiment)
    chunk = choose(experiment).chunk
    draw, gradient = over_tasks(built.outer(built.learner), built.training, experiment.meta_batch, chunk=chunk)
    key, number = jax.eval_shape(lambda: (jax.random.key(0), jnp.asarray(0)))
    meta = jax.eval_shape(built.learner.init, key)
    drawn = jax.eval_shape(draw, built.training.data, key)
    memory = jax.jit(gradient).lower(meta, drawn, number).compile().memory_analysis()
    sizes = [leaf.size for leaf in jax.tree.leaves(meta)]
    return StepNeeds(sum(sizes), memory.temp_size_in_bytes / 1e6 if memory else None)


RUNNER: Runner[FamilyOptions, AnyPlan, Found] = Runner(run, partial(read_record, Found), fit=fit)
