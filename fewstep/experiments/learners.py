"""From an experiment's method to its learner: a rule's gradient steps, or one of the learners without them."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fewstep import learners, losses, rules
from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep._learner import Learner, gradient_learner
from fewstep._network import Network
from fewstep._rule import Rule
from fewstep.experiments.experiment import Experiment, option
from fewstep.problems.problem import Problem
from fewstep.tasks.table import whole_tasks

_OF_RULES = (
    "inner_steps", "inner_lr", "inner_clip", "inner_optimizer", "temperature", "draw", "outer", "minibatch", "remat",
    "adapt_norm",
)  # fmt: skip
_OF_FINETUNE = ("inner_lr", "inner_steps")


def make_learner(
    experiment: Experiment, problem: Problem, rule: Rule | None, steps: int, ways: int | None, norm: str | None = None
) -> Learner:
    """The learner of an experiment, for tasks of that many `ways` and a mode of normalization.

    A network that was trained with more outputs than a task has classes uses the first of them.
    """
    if rule is not None:
        network = _narrow(problem.network(trained_ways(experiment), norm), trained_ways(experiment), ways)
        return gradient_learner(network, rule, problem.loss, steps=steps, remat=experiment.remat)
    if experiment.method in learners.READERS:
        return _reader(experiment, problem, ways, norm)
    if experiment.method in learners.SOLVERS:
        return _solver(experiment, problem, ways, norm)
    assert ways is not None
    features = problem.network(None, norm)
    if experiment.method in ("prototypes", "embedding", "spectral"):
        return getattr(learners, experiment.method)(features, ways)
    if experiment.method == "matching":
        width = _width(features, problem.image) if experiment.full_context else None
        return learners.matching(features, ways, full_context=width)
    classifier = problem.network(problem.n_classes(), norm)
    if experiment.method == "neighbor":
        return learners.neighbor(classifier, features, ways)
    lr = 0.1 if experiment.inner_lr is None else experiment.inner_lr
    return learners.finetune(classifier, problem.network(ways, norm), rules.maml(lr))


def _reader(experiment: Experiment, problem: Problem, ways: int | None, norm: str | None) -> Learner:
    """A learner that reads a task's examples: of images by their features, of curves as they are."""
    if ways != trained_ways(experiment):
        raise FewstepError(
            f"{experiment.method} was trained with {trained_ways(experiment)} classes a task and reads no other number."
            f" Use `ways={trained_ways(experiment)}`."
        )
    made, longest = getattr(learners, experiment.method), experiment.shots * (ways or 1) + 1
    if ways is not None:
        features = problem.network(None, norm)
        sizes = learners.Sizes(_width(features, problem.image), ways, classes=True)
        more = {"longest": longest, "blocks": learners.IMAGES} if experiment.method == "snail" else {}
        return made(features, sizes, losses.cross_entropy, **more)
    inputs, outputs = problem.widths
    more = {"longest": max(longest, 16)} if experiment.method == "snail" else {}  # gaps of 1 to 8, as in the paper
    sizes = learners.Sizes(inputs, outputs, classes=problem.metric == "accuracy")
    return made(learners.nothing_but_x(inputs), sizes, problem.loss, **more)


def _solver(experiment: Experiment, problem: Problem, ways: int | None, norm: str | None) -> Learner:
    """A learner that solves for what a task leaves open."""
    inputs, outputs = problem.widths
    classes = problem.metric == "accuracy"
    if experiment.method == "ridge":
        if ways is not None:
            features = problem.network(None, norm)
            return learners.ridge(features, _width(features, problem.image), ways, classes=True, loss=problem.loss)
        width = (experiment.hidden or (64,))[-1]
        return learners.ridge(problem.network(width), width, outputs, classes=classes, loss=problem.loss)
    if classes:
        raise FewstepError(f"{experiment.method} predicts numbers, and the target is classes. Try ridge or mtnet.")
    return learners.mixed(inputs) if experiment.method == "mixed" else learners.gaussian(problem.network(), inputs)


def training_tasks(experiment: Experiment, problem: Problem) -> Tasks:
    """What the method is trained on: tasks; all rows of them, for a likelihood; or for the baselines batches of all
    classes."""
    if experiment.method in ("neighbor", "finetune") and problem.classes is not None:
        return problem.classes()
    if experiment.method in learners.PROCESSES and problem.rows is not None:
        return whole_tasks(problem.rows("train"), learners.FITTING.rows)
    return problem.tasks(experiment.shots, experiment.queries)


def trained_ways(experiment: Experiment) -> int | None:
    """The classes of a task in training; nothing for tasks without."""
    return (experiment.ways or 5) if experiment.has_images else None


def refuse_for_learners(experiment: Experiment) -> None:
    """Raises when an option of rules is given to a learner that has no inner gradient."""
    if not experiment.has_images and experiment.method in learners.OF_CLASSES:
        raise FewstepError(f"{experiment.method} needs classes of images, and {experiment.tasks} has none.")
    if experiment.has_images and experiment.method in learners.PROCESSES:
        raise FewstepError(f"{experiment.method} predicts numbers, and {experiment.tasks} are images. Try ridge.")
    whole = ("hidden", "bias_inputs") if experiment.has_images else ("hidden", "bias_inputs", "start", "network")
    for name in () if experiment.method in ("ridge", "gaussian") else whole:
        if getattr(experiment, name) is not None:
            raise FewstepError(f"{option(name)} does not apply: {experiment.method} is no perceptron. Leave it out.")
    if experiment.loss is not None and experiment.method in learners.PROCESSES:
        raise FewstepError(f"`loss` does not apply: {experiment.method} maximizes the likelihood. Leave it out.")
    if experiment.least_shots is not None and experiment.method in learners.PROCESSES:
        raise FewstepError(
            f"`least_shots` does not apply: {experiment.method} is trained on whole tasks. Leave it out."
        )
    mine = _OF_FINETUNE if experiment.method == "finetune" else ()
    for name in _OF_RULES:
        value = getattr(experiment, name)
        if name not in mine and value is not None and value is not False:
            raise FewstepError(
                f"{option(name)} does not apply to {experiment.method}, which learns a task without a rule."
            )


def _width(features: Network, image: tuple[int, ...]) -> int:
    """How many features the network gives of an image."""

    def seen() -> Any:
        return features.apply(features.init(jax.random.key(0)), (), jnp.zeros((1, *image)), jnp.ones(1))[0]

    return jax.eval_shape(seen).shape[1]


def _narrow(network: Network, trained: int | None, ways: int | None) -> Network:
    if trained is None or ways is None or ways == trained:
        return network
    if ways > trained:
        raise FewstepError(
            f"A task has {ways} classes and the network {trained} outputs. Take {trained} classes or fewer, train with "
            f"`ways={ways}`, or use a method without a last layer: prototypes or matching."
        )

    def apply(params: PyTree, state: PyTree, x: Any, weight: Array) -> tuple[Any, PyTree]:
        y, state = network.apply(params, state, x, weight)
        return y[:, :ways], state

    return network._replace(apply=apply)
