"""`auto`: several methods trained in one go, with weights for each number of rows, chosen on the validation tasks.

Each member is an experiment of its own on the same problem. One of them, `pooled`, does not learn from a task's rows,
so learning from them gets no weight where it hurts. In the end the members that have weight are trained once more, on
the validation tasks too, for as many steps as were best.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fewstep._errors import unknown
from fewstep._learner import Learner
from fewstep._rule import Meta
from fewstep.experiments._fitting import Fitted, Say, TrainedMember, TrainMember
from fewstep.experiments._weights import combine
from fewstep.learners import PROCESSES, Member, all_numbers, portfolio
from fewstep.problems import Answers, Problem, TableDetails, Value, answer_tasks, draws_of
from fewstep.tables import Rows, Schema
from fewstep.training import NotFinite

if TYPE_CHECKING:
    from fewstep.experiments.build import Built
    from fewstep.experiments.experiment import Experiment

POOLED = "pooled"
OF_NUMBERS = ("mtnet+rates", "ridge", "gaussian", "mixed", "np", "trees", "shifted", POOLED)
OF_OTHERS = ("mtnet+rates", "ridge", "np", "trees", "shifted", POOLED)  # classes, or several numbers
# What differs for a member from the method alone: less time, for a part of the answer.
_LESS: dict[str, dict[str, Value]] = {
    "mtnet+rates": {"steps": 1500},
    "np": {"width": 32, "blocks": 2, "ff": 64, "steps": 1500, "meta_batch": 8},
}
_SIZES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)  # numbers of rows that weights are chosen for
_BEYOND = 0.5  # of the training's range: a target farther outside is not learned from
_DRAWS = 300  # of tasks, that they are chosen by
_OWN = ("method", "tasks", "members", "member_seeds", "effort", "refit", "seconds", "steps")


def parts(experiment: "Experiment") -> dict[str, dict[str, Value]]:
    """The options of each member by its method: those of `auto`, as far as they apply to it."""
    known = OF_NUMBERS if _has_one_number(experiment) else OF_OTHERS
    for name in experiment.members:
        if name not in known:
            raise unknown("member", name, known)
    shared = {name: value for name, value in experiment.settings().items() if name not in _OWN}
    shared["seeds"] = experiment.member_seeds
    whole = {"min_shots": experiment.shots}  # processes are fitted to all rows of a task
    return {
        name: shared | (whole if name in PROCESSES else {}) | _LESS.get(name, {})
        for name in experiment.members or known
    }


def _has_one_number(experiment: "Experiment") -> bool:
    """Whether the target is one number, as far as is known before the table is read."""
    if not experiment.has("schema") or not experiment.schema:
        return True
    schema = Schema.from_dict(experiment.schema)
    return not schema.classes and len(schema.targets) == 1


def weight_sizes(shots: int) -> tuple[int, ...]:
    """The numbers of rows that weights are chosen for, if so many are expected."""
    return tuple(sorted({*(n for n in _SIZES if n <= max(2 * shots, 10)), shots}))


def learner(
    experiment: "Experiment", problem: Problem, parts: Mapping[str, Member], ways: int | None, norm: str | None
) -> Learner:
    """The portfolio of the members."""
    sizes = weight_sizes(experiment.shots)
    return portfolio(parts, sizes, problem.loss, outputs=problem.outputs, classes=problem.classes, otherwise=POOLED)


def problem_of(problem: Problem) -> Problem:
    """The problem with ends of the targets that are learned from: a code for a missing value or a wrong unit, for which
    no validation task has shown what learning does, must not make `auto` worse than `pooled`."""
    details = problem.details
    if not isinstance(details, TableDetails) or problem.classes:
        return problem
    return problem._replace(details=details._replace(schema=replace(details.schema, credible=_BEYOND)))


def fit(built: "Built", train: TrainMember, say: Say) -> Fitted:
    """Trains the members, chooses the weights, and trains those that have weight again on all tasks."""
    problem, experiment = built.problem, built.experiment
    assert problem.held_out is not None
    trained: dict[str, TrainedMember] = {}
    diverged: set[str] = set()
    for name, member in built.parts.items():
        say(f"Training {name}, {len(trained) + 1} of {len(built.parts)}.")
        try:
            trained[name] = _sound(train(name, member))
        except NotFinite as error:
            say(f"{name} diverged and gets no weight. {error}")
            trained[name] = TrainedMember(member.first().meta, 0)
            diverged.add(name)
    held_out = problem.held_out("validation")
    if set(held_out.names) & set(problem.held_out("train").names):  # too few tasks to choose by
        sizes = weight_sizes(experiment.shots)
        equal = np.full((len(sizes), len(trained)), 1 / len(trained), np.float32)
        return Fitted(_meta(problem, trained, equal))
    say("Choosing the weights on the validation tasks.")
    sizes, by_member = weight_sizes(experiment.shots), []
    for name, member in built.parts.items():
        answered = _answers(member, trained[name].metas, held_out, sizes, experiment.seed)
        by_member.append({n: _unusable(a) for n, a in answered.items()} if name in diverged else answered)
    answers, weights = combine(by_member, sizes, classes=problem.classes, seed=experiment.seed)
    say(_mixture(list(trained), weights[sizes.index(experiment.shots)], experiment.shots))
    if experiment.refit:
        for (name, member), share in zip(built.parts.items(), weights.max(0), strict=True):
            if share > 0:
                say(f"Training {name} again, on the validation tasks too.")
                with suppress(NotFinite):  # what was trained before stays
                    trained[name] = _sound(train(f"{name}-all", member.again(trained[name])))
    if POOLED in trained and not problem.classes:  # it answers alone where no row is left to learn from
        answers = {0: by_member[list(trained).index(POOLED)][sizes[0]]._replace(residual=None)} | answers
    return Fitted(_meta(problem, trained, weights), answers)


def _meta(problem: Problem, trained: Mapping[str, TrainedMember], weights: np.ndarray) -> Meta:
    """The parameters of the portfolio."""
    metas = {name: member.metas for name, member in trained.items()}
    whole: Meta = {"members": metas, "weights": jnp.asarray(weights, jnp.float32)}
    if problem.classes:
        return whole
    known = isinstance(problem.details, TableDetails)
    ends = jnp.asarray(problem.details.schema.limits, jnp.float32) if known else all_numbers(problem.outputs)
    return whole | {"ends": ends}


def _mixture(names: list[str], weights: np.ndarray, shots: int) -> str:
    """What the answer is made of, in words."""
    shares = [f"{weights[n]:.0%} {names[n]}" for n in np.argsort(-weights, kind="stable") if weights[n] >= 0.005]
    return f"After {shots} row{'s' * (shots > 1)} the answer is {', '.join(shares)}."


def _unusable(answers: Answers) -> Answers:
    return answers._replace(mean=np.full_like(answers.mean, np.nan))


def _sound(trained: TrainedMember) -> TrainedMember:
    """The member without seeds that diverged: another one takes their place."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(trained.metas)]
    finite = np.all([np.isfinite(leaf).reshape(len(leaf), -1).all(1) for leaf in leaves], axis=0)
    if not finite.any():
        raise NotFinite(trained.steps, "Every seed has diverged.")
    take = np.where(finite, np.arange(len(finite)), np.argmax(finite))
    return trained._replace(metas=jax.tree.map(lambda leaf: leaf[take], trained.metas))


def _answers(member: "Built", metas: PyTree, rows: Rows, sizes: tuple[int, ...], seed: int) -> dict[int, Answers]:
    """What a member answers on some tasks after learning from each number of rows, always on the same rows."""
    seeds = [jax.tree.map(lambda leaf, n=n: leaf[n], metas) for n in range(len(jax.tree.leaves(metas)[0]))]
    within = min(max(sizes), max(1, int(rows.counts.max()) // 2))
    ask = partial(
        answer_tasks, member.learner, seeds, rows, steps=(member.inner_steps,), samples=member.samples,
        draws=draws_of(rows, _DRAWS), classes=member.problem.classes, seed=seed, within=within,
    )  # fmt: skip
    return {size: ask(shots=min(size, within)) for size in sizes}
