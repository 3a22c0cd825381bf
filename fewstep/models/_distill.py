"""One small model in the place of a large one: a student learns to answer as a trained model, its teacher, does."""

import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from fewstep._episode import Batch, Episode, Tasks
from fewstep._errors import FewstepError
from fewstep._streams import TEACHING
from fewstep.compute import light
from fewstep.experiments import Experiment, build, plan_of
from fewstep.learners import PROCESSES
from fewstep.models._calibration import Calibration
from fewstep.models._distilled import Distilled, compare
from fewstep.models._evaluate import calibrate_model
from fewstep.models._fit import kept_metas
from fewstep.models._model import Model, answer, learn
from fewstep.problems import Problem, Say, Value

STUDENT = "ridge"
EPISODES = 2000
_CHUNK = 16  # episodes that the teacher answers at once
_PART = 8 * _CHUNK  # episodes between two reports of progress
# What differs for a student from the method alone: it is to be small.
_SMALL: dict[str, dict[str, Value]] = {"np": {"width": 32, "blocks": 2, "ff": 64, "meta_batch": 8}}

Watch = Callable[[str, float, float, str], None]


class Bank(NamedTuple):
    """What a teacher answers on episodes: episode n is what `tasks` draw with the key folded with n, `mean` the answers
    on the rows of its query, NaN where they are not finite."""

    tasks: Tasks
    key: Key[Array, ""]
    mean: Float[np.ndarray, "episodes rows outputs"]


def distill(
    model: Model, method: str = STUDENT, *, steps: int | None = None, seed: int = 0, episodes: int = EPISODES,
    say: Say = lambda message: None, watch: Watch = lambda what, done, total, unit: None,
) -> tuple[Model, Distilled]:  # fmt: skip
    """Trains one small model, the student, to answer as a model of a table does, and measures what that costs.

    The teacher answers on the query rows of `episodes` from its training tasks, of the sizes that it was trained with,
    and the student is trained on these answers. It is an ordinary model of the same table: stopped and calibrated by
    the true targets of the validation tasks, and compared with the teacher on the test tasks.

    **Arguments:** the teacher; the `method` of the student, which must be trained by outer steps, for at most so many
    `steps` (by default the method's own number); `watch(what, done, total, unit)` sees the progress.

    **Returns:** the student, and what was measured.

    Example::

        student, report = distill(load("runs/growth"))
        print(report.sentence)
    """
    experiment = student_of(model, method, steps, seed)
    if episodes < 1:
        raise FewstepError(f"`episodes` is {episodes}. It must be at least 1.")
    begun = time.monotonic()
    say(f"{model.experiment.public_method} answers on {episodes:,} episodes of the training tasks.")
    bank = make_bank(model, episodes, seed, watch)
    answered = time.monotonic()
    say(f"Training {method} on its answers.")
    student = _train(experiment, model.problem, bank, watch)
    trained = time.monotonic()
    say("Calibrating the student, and comparing it with its teacher on the test tasks.")
    student = dataclasses.replace(student, calibration=_calibration(student))
    measured = compare(student, model)
    seconds = round(answered - begun, 1), round(trained - answered, 1)
    return student, dataclasses.replace(measured, episodes=episodes, bank_seconds=seconds[0], train_seconds=seconds[1])


def student_of(model: Model, method: str, steps: int | None = None, seed: int = 0) -> Experiment:
    """The experiment of a student: the method on the same table, with the same columns, split and sizes."""
    own = model.experiment
    if model.problem.held_out is None:
        raise FewstepError(
            f"`distill` needs a run on a table, and {own.public_tasks} is not one. Leave it out: the run is one model."
        )
    given: dict[str, Value] = dataclasses.asdict(own.groups[0]) | _SMALL.get(method, {})
    given |= {"seed": seed, "seeds": 1} | ({} if steps is None else {"steps": steps})
    names = {field.name for _, field in plan_of(method, own.tasks, given, own.folder).fields()}
    if method in PROCESSES or "outer_lr" not in names:
        raise FewstepError(
            f"{method} is not trained to give answers, so it cannot learn those of a teacher. Use "
            "ridge, mtnet+rates or np."
        )
    if steps is not None and steps < 1:
        raise FewstepError(f"`steps` is {steps}. It must be at least 1.")
    return Experiment(method, own.tasks, folder=own.folder, **{k: v for k, v in given.items() if k in names})


def make_bank(
    model: Model, episodes: int, seed: int = 0, watch: Watch = lambda what, done, total, unit: None
) -> Bank:  # fmt: skip
    """The answers of a teacher on so many episodes of its training tasks."""
    own = model.experiment
    tasks = model.problem.tasks(own.shots, own.queries)
    key = jax.random.fold_in(jax.random.key(seed), TEACHING)

    def one(metas: PyTree, data: PyTree, number: Array) -> Array:
        episode = tasks.sample(data, jax.random.fold_in(key, number))
        adapted, _ = learn(model, key, episode.support, metas=metas)
        return answer(model, adapted, episode.query.x, metas=metas).mean

    size = min(_CHUNK, episodes)
    ask = jax.jit(
        lambda metas, data, numbers: jax.lax.map(lambda n: one(metas, data, n), numbers, batch_size=size),
        compiler_options=light(),
    )
    means = []
    for first in range(0, episodes, _PART):
        watch("Answers of the teacher", first, episodes, "episodes")
        means.append(np.asarray(ask(model.stacked, tasks.data, jnp.arange(first, first + min(_PART, episodes)))))
    return Bank(tasks, key, np.concatenate(means)[:episodes])


def bank_tasks(bank: Bank, *, classes: bool) -> Tasks:
    """Tasks that draw an episode of a bank, with the teacher's answers as the targets of its query: numbers as they
    are, and classes drawn anew each time from its probabilities, so that any loss of labels learns these."""

    def sample(data: PyTree, key: Key[Array, ""]) -> Episode:
        of_episode, of_labels = jax.random.split(key)
        number = jax.random.randint(of_episode, (), 0, len(bank.mean))
        support, query = bank.tasks.sample(data["tasks"], jax.random.fold_in(bank.key, number))
        mean = data["mean"][number]
        usable = jnp.isfinite(mean).all(-1)
        mean = jnp.where(usable[:, None], mean, 0.0)
        y = jax.random.categorical(of_labels, jnp.log(mean)).astype(query.y.dtype) if classes else mean
        y = jnp.where(usable, y, 0) if classes else y
        return Episode(support, Batch(query.x, y, query.weight * usable))

    return Tasks({"tasks": bank.tasks.data, "mean": jnp.asarray(bank.mean)}, sample)


def _train(experiment: Experiment, problem: Problem, bank: Bank, watch: Watch) -> Model:
    """The student after training on a bank, as a model of the problem itself."""
    answers = bank_tasks(bank, classes=problem.classes)

    def tasks(shots: int, queries: int, split: str = "train", ways: int | None = None) -> Tasks:
        return answers if split == "train" else problem.tasks(shots, queries, split, ways)

    built, steps = build(experiment, problem._replace(tasks=tasks)), experiment.steps
    watch(f"Training {experiment.public_method}", 0, steps, "steps")
    state = built.train(
        on_segment=lambda state, rows: watch(f"Training {experiment.public_method}", int(state.step), steps, "steps")
    ).state
    return Model(build(experiment, problem), kept_metas(built, state), int(state.step))


def _calibration(student: Model) -> Calibration | None:
    """That of the validation tasks, unless the student is trained on them too."""
    problem = student.problem
    assert problem.held_out is not None
    held_out = problem.held_out("validation")
    if set(held_out.names) & set(problem.held_out("train").names):
        return None
    return calibrate_model(student, held_out)[0]
