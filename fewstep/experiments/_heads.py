"""The learners without a rule, each with what it needs of a problem: how it is made, trained and checked."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fewstep import learners, losses, rules
from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep._learner import Learner
from fewstep._network import Network
from fewstep.experiments import _auto
from fewstep.experiments._fitting import check_rows, fit_trees, trees_again, trees_learner
from fewstep.experiments._groups import FewSteps, Fit, Portfolio
from fewstep.experiments._start import metric_start
from fewstep.problems import Problem, Value, from_signature, option

if TYPE_CHECKING:
    from fewstep.experiments.experiment import Experiment


@dataclasses.dataclass(frozen=True)
class FullContext:
    """The options of matching networks."""

    full_context: bool = option(False, "Full-context embeddings.")


def narrow(network: Network, trained: int | None, ways: int | None) -> Network:
    """The network with the first outputs only, for a task of fewer classes than it was trained with."""
    if trained is None or ways is None or ways == trained:
        return network
    if ways > trained:
        raise FewstepError(
            f"A task has {ways} classes and the network {trained} outputs. Take {trained} classes or fewer, train with "
            f"`ways={ways}`, or use a method without a last layer: prototypes or matching."
        )

    def apply(params: PyTree, state: PyTree, x: PyTree, weight: Array) -> tuple[PyTree, PyTree]:
        y, state = network.apply(params, state, x, weight)
        return y[:, :ways], state

    return network._replace(apply=apply)


def _width(features: Network, shape: tuple[int, ...]) -> int:
    """How many features the network gives of a row."""

    def forward() -> Array:
        return features.apply(features.init(jax.random.key(0)), (), jnp.zeros((1, *shape)), jnp.ones(1))[0]

    return jax.eval_shape(forward).shape[1]


def _by_features(
    name: str, experiment: "Experiment", problem: Problem, rule: None, ways: int, norm: str | None
) -> Learner:
    return getattr(learners, name)(problem.network(None, norm), ways)


def _metric(experiment: "Experiment", problem: Problem, rule: None, ways: int, norm: str | None) -> Learner:
    features = problem.network(None, norm)
    return learners.metric(
        features, _width(features, problem.x), ways, rank=experiment.rank, sharpness=experiment.sharpness
    )  # fmt: skip


def _logistic(experiment: "Experiment", problem: Problem, rule: None, ways: int, norm: str | None) -> Learner:
    return learners.logistic(problem.network(None, norm), ways, inverse_penalty=experiment.inverse_penalty)


def _matching(experiment: "Experiment", problem: Problem, rule: None, ways: int, norm: str | None) -> Learner:
    features = problem.network(None, norm)
    width = _width(features, problem.x) if experiment.full_context else None
    return learners.matching(features, ways, full_context=width)


def _neighbor(experiment: "Experiment", problem: Problem, rule: None, ways: int, norm: str | None) -> Learner:
    return learners.neighbor(problem.network(problem.n_classes(), norm), problem.network(None, norm), ways)


def _finetune(experiment: "Experiment", problem: Problem, rule: None, ways: int, norm: str | None) -> Learner:
    classifier = problem.network(problem.n_classes(), norm)
    return learners.finetune(classifier, problem.network(ways, norm), rules.maml(experiment.inner_lr))


def _in_context(
    name: str, experiment: "Experiment", problem: Problem, rule: None, ways: int | None, norm: str | None
) -> Learner:
    """A learner that conditions on a task's examples: on their features where classes are drawn, else as they are."""
    if ways != problem.ways:
        raise FewstepError(
            f"{name} was trained with {problem.ways} classes per task and takes no other number. Use "
            f"`ways={problem.ways}`."
        )
    factory, longest = getattr(learners, name), experiment.shots * (ways or 1) + 1
    if ways is not None:
        features = problem.network(None, norm)
        sizes = learners.Sizes(_width(features, problem.x), ways, classes=True)
        more = {"longest": longest, "blocks": learners.IMAGES} if name == "snail" else {}
        return factory(features, sizes, losses.cross_entropy, **more)
    more = {"longest": max(longest, 16)} if name == "snail" else {}  # gaps of 1 to 8, as in the paper
    sizes = learners.Sizes(problem.x[0], problem.outputs, classes=problem.classes)
    return factory(learners.nothing_but_x(problem.x[0]), sizes, problem.loss, **more)


def _ridge(experiment: "Experiment", problem: Problem, rule: None, ways: int | None, norm: str | None) -> Learner:
    features = problem.network(None, norm) if ways is not None else None
    if features is not None and ways is not None:
        return learners.ridge(features, _width(features, problem.x), ways, classes=True, loss=problem.loss)
    width = experiment.hidden[-1] if experiment.has("hidden") else 64
    return learners.ridge(
        problem.network(width), width, problem.outputs, classes=problem.classes, loss=problem.loss
    )  # fmt: skip


def _gaussian(experiment: "Experiment", problem: Problem, rule: None, ways: int | None, norm: str | None) -> Learner:
    _refuse_min_shots(experiment)
    _refuse_several(experiment, problem)
    return learners.gaussian(problem.network(), problem.x[0])


def _mixed(experiment: "Experiment", problem: Problem, rule: None, ways: int | None, norm: str | None) -> Learner:
    _refuse_min_shots(experiment)
    _refuse_several(experiment, problem)
    return learners.mixed(problem.x[0])


def _neural_process(
    name: str, group: type, experiment: "Experiment", problem: Problem, rule: None, ways: int | None, norm: str | None
) -> Learner:
    """A neural process, which reads the numbers of a row as they are."""
    own = {field.name: experiment.value(field.name) for field in dataclasses.fields(group)}
    sizes = learners.Sizes(problem.x[0], problem.outputs, classes=problem.classes)
    return getattr(learners, name)(sizes, **own)


def _refuse_min_shots(experiment: "Experiment") -> None:
    if experiment.has("min_shots") and experiment.min_shots not in (0, experiment.shots):
        raise FewstepError(
            f"`min_shots` does not apply to {experiment.method}, which is fitted to all rows of a task. Leave it out."
        )


def _refuse_several(experiment: "Experiment", problem: Problem) -> None:
    if problem.targets:
        raise FewstepError(
            f"{experiment.method} predicts one target, and `y` has {len(problem.targets)}: "
            f"{', '.join(problem.targets)}. Name one, or use another method, such as ridge."
        )


def _whole(experiment: "Experiment", problem: Problem) -> Tasks:
    """All rows of a task, for a likelihood, where the tasks are a list."""
    if problem.whole is None:
        return problem.tasks(experiment.shots, experiment.queries)
    return problem.whole(learners.FITTING.rows)


def _all_classes(experiment: "Experiment", problem: Problem) -> Tasks:
    assert problem.all_classes is not None
    return problem.all_classes()


def _check_classes(name: str, tasks: str, problem: Problem) -> None:
    if problem.ways is None:
        raise FewstepError(f"{name} needs classes of images, and {tasks} has none.")


def _check_numbers(name: str, tasks: str, problem: Problem) -> None:
    if problem.ways is not None:
        raise FewstepError(f"{name} predicts numbers, and {tasks} are images. Try ridge.")
    if problem.classes:
        raise FewstepError(f"{name} predicts numbers, and the target is classes. Try ridge or mtnet.")


def _check_rows(name: str, tasks: str, problem: Problem) -> None:
    if problem.ways is not None:
        raise FewstepError(f"{name} reads rows of numbers, and {tasks} are images. Try snail or prototypes.")


# Of a transformer that is trained from scratch: the steps are small, and of many tasks.
_STEPS: dict[str, Value] = {"outer_lr": 1e-3, "schedule": "cosine", "clip_norm": 1.0, "meta_batch": 16}


def _method(name: str) -> dict[str, Value]:
    """What differs for one of the learners."""
    parts: dict[str, Value] = {"groups": ()}
    if name in learners.OF_CLASSES:
        parts["check"] = partial(_check_classes, name)
    if name in ("prototypes", "embedding", "spectral"):
        parts["learner"] = partial(_by_features, name)
    if name in learners.READERS:
        parts |= {"learner": partial(_in_context, name), "network": False}
    if name in learners.PROCESSES:
        parts |= {"check": partial(_check_numbers, name), "tasks": _whole, "loss": False}
    if name in learners.TREES:
        parts |= {
            "groups": (Fit,), "check": partial(check_rows, name), "learner": partial(trees_learner, name),
            "fit": partial(fit_trees, name), "again": trees_again, "network": False, "loss": False,
        }  # fmt: skip
    if name in learners.NEURAL_PROCESSES:
        group = from_signature(name, getattr(learners, name))
        parts |= {
            "check": partial(_check_rows, name), "learner": partial(_neural_process, name, group), "groups": (group,),
            "network": False, "loss": False, "weak_defaults": lambda given: _STEPS,
        }  # fmt: skip
    return parts


_OWN: Mapping[str, dict[str, Value]] = {
    "matching": {"learner": _matching, "groups": (FullContext,)},
    "neighbor": {"learner": _neighbor, "tasks": _all_classes},
    "finetune": {"learner": _finetune, "tasks": _all_classes, "groups": (FewSteps,), "steps": True},
    "ridge": {"learner": _ridge},
    "metric": {
        "learner": _metric,
        "groups": (from_signature("metric", learners.metric),),
        "start": metric_start,
    },
    "logistic": {"learner": _logistic, "groups": (from_signature("logistic", learners.logistic),)},
    "gaussian": {"learner": _gaussian},
    "mixed": {"learner": _mixed, "network": False},
}
_AUTO: dict[str, Value] = {
    "groups": (Portfolio,), "check": partial(check_rows, "auto"), "learner": _auto.learner, "fit": _auto.fit,
    "parts": _auto.parts,
}  # fmt: skip
LEARNER_METHODS: dict[str, dict[str, Value]] = {
    **{name: _method(name) | _OWN.get(name, {}) for name in learners.LEARNERS}, "auto": _AUTO,
}  # fmt: skip
