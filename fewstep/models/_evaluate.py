"""Evaluates a trained model on unseen tasks: one row for each number of shots and inner steps."""

import itertools
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from fewstep._episode import Episode, Tasks
from fewstep._errors import FewstepError
from fewstep.evaluation import make_evaluate, summarize
from fewstep.experiments import make_problem
from fewstep.models._adaptation import LEVEL
from fewstep.models._calibration import Calibration, calibrate, coverage, each_left_out
from fewstep.models._model import Model
from fewstep.models._verdict import Verdict, judge
from fewstep.problems import (
    Answers,
    Plan,
    Say,
    ScoreRow,
    Value,
    Values,
    answer_tasks,
    class_scores,
    draws_of,
    score_answers,
    target_scores,
)  # fmt: skip
from fewstep.tables import Rows, large_enough

_SHOTS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)  # numbers of rows that intervals are calibrated for
_TASKS, _QUERIES = 600, 10

Pooled = Callable[[Plan], Mapping[int, Answers]]


def evaluate_model(
    model: Model, plan: Plan, *, steps: tuple[int, ...], say: Say = lambda message: None,
    changes: Values | None = None, on: Literal["query", "support"] = "query",
    norms: tuple[str | None, ...] | None = None,
) -> list[ScoreRow]:  # fmt: skip
    """One row for each number of shots and inner steps: mean and 95% interval over unseen tasks.

    **Arguments:** the `plan` of the tasks; what is chosen by looking at scores is chosen on its split `validation`.
    Where a normalization takes statistics of a set, tasks are evaluated twice: by those of the query (transductive),
    and by those of the support; `norms` leaves some out. `changes` to the experiment make other tasks than those it was
    trained on: `{"amplitude": (5.0, 10.0)}`. `on="support"` evaluates on what was learned from.

    A problem whose tasks are a list has each held-out task learned several times, from other rows each time, and its
    seeds answer together; elsewhere tasks are drawn anew, and a task's score is the mean of its seeds'.
    """
    return evaluate_places(model, {"": changes or {}}, plan, steps=steps, say=say, on=on, norms=norms)[""]


def evaluate_places(
    model: Model, places: Mapping[str, Values], plan: Plan, *, steps: tuple[int, ...],
    say: Say = lambda message: None, on: Literal["query", "support"] = "query",
    norms: tuple[str | None, ...] | None = None,
) -> dict[str, list[ScoreRow]]:  # fmt: skip
    """The rows of `evaluate_model` in several places: changes to the experiment, by name.

    A place differs in what its tasks are drawn from, not in how: one compiled program evaluates all of them.
    """
    _check(model, plan, steps)
    steps = steps if model.built.steps else (0,)
    if model.problem.held_out is not None:
        for name in (name for change in places.values() for name in change):
            raise FewstepError(f"`{name}` does not apply: the held-out tasks are what they are. Leave it out.")
        return {name: evaluate_held_out(model, plan, steps=steps, say=say).rows for name in places}
    problem, ways = model.problem, plan.ways or model.problem.ways
    queries = plan.queries or (model.experiment.queries if ways else _QUERIES)
    problems = {
        name: make_problem(model.experiment.replace(**change)) if change else problem for name, change in places.items()
    }
    rows: dict[str, list[ScoreRow]] = {name: [] for name in places}
    pairs = list(itertools.product(norms or problem.norms, plan.shots))
    for turn, (norm, shots) in enumerate(pairs):
        if ways:
            say(f"Evaluating {turn + 1} of {len(pairs)}: {ways}-way {shots}-shot{f', norm {norm}' if norm else ''}.")
        tasks = {name: made.tasks(shots, queries, plan.split, plan.ways) for name, made in problems.items()}
        first = next(iter(tasks.values()))
        score_tasks = make_evaluate(
            model.built.learner_for(ways, norm), _on_support(first) if on == "support" else first, problem.score,
            steps=steps, n_tasks=_TASKS if plan.n_tasks is None else plan.n_tasks, seed=plan.seed,
        )  # fmt: skip
        more: dict[str, Value] = {"ways": ways, "queries": queries, "norm": norm} if ways else {}
        for name, here in tasks.items():
            scores = _scores(model, score_tasks, here.data, plan.n_tasks or _TASKS, len(steps))
            rows[name] += [_row(model, plan.split, shots, n, scores[:, :, i], more) for i, n in enumerate(steps)]
    return rows


def _check(model: Model, plan: Plan, steps: tuple[int, ...]) -> None:
    if not plan.shots or min(plan.shots) < 1:
        raise FewstepError(f"`shots` is {plan.shots}. Give numbers of 1 or more, such as 5 10 20.")
    if not steps or min(steps) < 0:
        raise FewstepError(f"`inner_steps` is {steps}. Give numbers of 0 or more, such as 1 5.")
    for name, value, lowest in (("ways", plan.ways, 2), ("queries", plan.queries, 1), ("n_tasks", plan.n_tasks, 2)):
        if value is not None and value < lowest:
            raise FewstepError(f"`{name}` is {value}. It must be at least {lowest}.")
        if value is not None and model.problem.held_out is not None:
            raise FewstepError(f"`{name}` does not apply: every task that was held out is evaluated. Leave it out.")
    if plan.split != "test" and not model.problem.splits:
        raise FewstepError(
            f"`split={plan.split!r}` does not apply: {model.experiment.tasks} is drawn anew each time. Leave it out."
        )


def _on_support(tasks: Tasks) -> Tasks:
    def sample(data: PyTree, key: jax.Array) -> Episode:
        support = tasks.sample(data, key).support
        return Episode(support, support)

    return Tasks(tasks.data, sample)


def _scores(model: Model, score_tasks: Callable[..., np.ndarray], data: PyTree, tasks: int, steps: int) -> np.ndarray:
    """The scores of every seed that did not diverge on each task after each number of steps; NaN if all did."""
    return np.asarray([score_tasks(meta, data) for meta in model.finite.values()] or [np.full((tasks, steps), np.nan)])


def _row(model: Model, split: str, shots: int, steps: int, values: np.ndarray, more: dict[str, Value]) -> ScoreRow:
    """One row from each seed's scores on the same tasks; the interval is over tasks, each the mean of the seeds."""
    score = summarize(shots, steps, values.mean(0))
    with np.errstate(all="ignore"):  # as for the mean: a seed whose mean is not finite has no deviation
        deviation = float(np.std(values.mean(1), ddof=1)) if len(values) > 1 else None
    return ScoreRow(
        split, shots, steps, model.problem.metric, score.mean, score.interval95, score.n_tasks,
        median=float(np.median(np.nan_to_num(values, nan=np.inf, posinf=np.inf))), seeds=len(model.metas),
        seed_std=deviation, diverged_tasks=int((~np.isfinite(values)).any(0).sum()) or None,
        diverged_seeds=(len(model.metas) - len(model.finite)) or None, **more,
    )  # fmt: skip


class HeldOut(NamedTuple):
    """What a model answers on the held-out tasks of a split: the scores after each number of steps, and by the number
    of shots the answers after those of its training, or the most that were asked for."""

    rows: list[ScoreRow]
    answers: dict[int, Answers]


def evaluate_held_out(
    model: Model, plan: Plan, *, steps: tuple[int, ...], say: Say = lambda message: None
) -> HeldOut:  # fmt: skip
    """Evaluates a model whose tasks are a list: the root of the mean squared error in the target's unit, or the
    accuracy with the scores of probabilities."""
    _check(model, plan, steps)
    assert model.problem.held_out is not None
    steps, rows, kept = steps if model.built.steps else (0,), [], {}
    tasks = large_enough(model.problem.held_out(plan.split), max(plan.shots), plan.split, say)
    usual = steps.index(model.steps) if model.steps in steps else len(steps) - 1
    for shots in plan.shots:
        say(f"Evaluating {len(tasks.names)} {plan.split} tasks at {shots} shots.")
        answers = _ask(model, tasks, shots, steps, draws_of(tasks), plan.seed, max(plan.shots))
        rows += [
            _held_out_row(model, answers, plan.split, shots, count, number) for number, count in enumerate(steps)
        ]  # fmt: skip
        kept[shots] = answers.at(usual)
    return HeldOut(rows, kept)


def pooled_of(model: Model) -> Pooled | None:
    """What gives the answers, by the number of shots of a plan, of a model that does not learn from a task: what a
    verdict compares with. `None` where there is none."""
    of_kind, problem = model.kind.pooled, model.problem
    return None if of_kind is None or problem.held_out is None else lambda plan: of_kind(problem, plan)


def verdicts_of(model: Model, held_out: HeldOut, pooled: Mapping[int, Answers]) -> list[Verdict]:
    """The verdict on a model for each number of shots, from its answers and those of a `pooled` model, which does not
    learn from a task, on the same draws. The probabilities of classes count as the model gives them: calibrated."""
    problem, known = model.problem, model.calibration
    verdicts = []
    for shots, answers in held_out.answers.items():
        if problem.classes and known is not None:
            answers = answers._replace(mean=known.probabilities(answers.mean, shots))
        verdicts.append(judge(answers, pooled[shots], shots, scale=problem.scale, classes=problem.classes))
    return verdicts


def _ask(
    model: Model, rows: Rows, shots: int, steps: tuple[int, ...], draws: int, seed: int, within: int
) -> Answers:  # fmt: skip
    return answer_tasks(
        model.learner(), tuple(model.finite.values()), rows, shots=shots, steps=steps, draws=draws,
        samples=model.samples, classes=model.problem.classes, seed=seed, within=within,
    )  # fmt: skip


def _held_out_row(model: Model, answers: Answers, split: str, shots: int, steps: int, number: int) -> ScoreRow:
    problem, here = model.problem, answers.at(number)
    size: dict[str, Value] = {"scale": problem.scale, "classes": problem.classes}
    (score,) = score_answers(here.mean, here, **size)
    alone = [score_answers(member, here, **size)[0].mean for member in here.members]
    known = model.calibration if steps == model.steps else None
    more: dict[str, Value] = {}
    if problem.classes:
        shares = here.mean[:, :, 0]
        more = class_scores(known.probabilities(shares, shots) if known else shares, here)
    elif known is not None:
        more = {"coverage90": coverage(known, here, shots, LEVEL)}
    more |= target_scores(problem.targets, here)
    return ScoreRow(
        split, shots, steps, problem.metric, score.mean, score.interval95, score.n_tasks, seeds=len(alone),
        seed_std=float(np.std(alone, ddof=1)) if len(alone) > 1 else None, **more,
    )  # fmt: skip


def calibrate_model(model: Model, rows: Rows, seed: int = 0) -> tuple[Calibration | None, float | None]:
    """Intervals, or probabilities, that are right on held-out tasks; and the share of a task's values inside 90%
    intervals that were calibrated on the other tasks."""
    shots = model.experiment.shots
    most = min(max(2 * shots, 10), int(rows.counts.min()) - 1)
    sizes = sorted({number for number in (*_SHOTS, min(shots, most)) if 0 < number <= most})
    draws = draws_of(rows, 200)
    answers = {number: _ask(model, rows, number, (model.steps,), draws, seed, most) for number in sizes}
    return calibrate_by(model, answers) if answers else (None, None)


def calibrate_by(model: Model, answers: Mapping[int, Answers]) -> tuple[Calibration, float | None]:
    """The same by what was answered on held-out tasks, for each number of rows learned from."""
    if model.problem.classes:
        return calibrate(dict(answers), classes=True), None
    at = max(number for number in answers if number <= max(model.experiment.shots, min(answers)))
    return calibrate(dict(answers)), each_left_out(answers[at], at)
