"""What a method that is not trained by outer steps fits instead, and boosted trees as such methods."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from fewstep._errors import FewstepError
from fewstep._learner import Learner
from fewstep._rule import Meta
from fewstep.experiments._trees import How, Trees, trees_of
from fewstep.learners import pooled, shifted, trees
from fewstep.problems import Answers, Problem, Values

if TYPE_CHECKING:
    from fewstep.experiments.build import Built
    from fewstep.experiments.experiment import Experiment

Say = Callable[[str], None]


class TrainedMember(NamedTuple):
    """What training leaves of a member: the parameters to keep of each seed, with an axis of seeds in front, and the
    steps after which they were reached."""

    metas: PyTree
    steps: int


TrainMember = Callable[[str, "Built"], TrainedMember]


class Fitted(NamedTuple):
    """What a fit leaves: meta-parameters; and what the method answered, by the number of rows learned from, on held-out
    tasks that nothing was chosen on, to be calibrated by. Without such answers it is calibrated as any model is."""

    meta: Meta
    answers: Mapping[int, Answers] | None = None


TREES: dict[str, tuple[Callable[..., Learner], Callable[[Trees], Meta]]] = {
    "trees": (trees, Trees.support), "shifted": (shifted, Trees.shifted), "pooled": (pooled, Trees.pooled),
}  # fmt: skip


def trees_learner(
    name: str, experiment: "Experiment", problem: Problem, rule: None, ways: int | None, norm: str | None
) -> Learner:
    """The learner of one of the kinds of trees."""
    return TREES[name][0](problem.outputs, problem.loss, classes=problem.classes)


def fit_trees(name: str, built: "Built", train: TrainMember, say: Say) -> Fitted:
    """Fits one of the kinds of trees."""
    problem, experiment = built.problem, built.experiment
    assert problem.held_out is not None
    shots = min(experiment.min_shots, experiment.shots), experiment.shots
    how = How(problem.outputs, problem.classes, shots, experiment.seed, experiment.rounds)
    meta = TREES[name][1](trees_of(problem.held_out("train"), problem.held_out("validation"), how))
    return Fitted(jax.tree.map(jnp.asarray, meta))


def trees_again(trained: TrainedMember) -> Values:
    """The options by which trees are fitted again: as many as were best."""
    return {"rounds": tuple(int(count) for count in trained.metas["rounds"][0])}


def check_rows(name: str, tasks: str, problem: Problem) -> None:
    """Refuses problems whose tasks are drawn anew: there are no rows to fit to."""
    if problem.held_out is None:
        raise FewstepError(f"{name} learns from a table, and {tasks} is not one. Try mtnet or ridge.")
    if problem.base is not None and name in TREES:
        raise FewstepError(f"`base` does not apply to {name}, which fits trees of its own. Leave it out.")
