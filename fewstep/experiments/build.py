"""From an experiment to what it names: problem, rule, learner, optimizer, outer gradient."""

import dataclasses
from collections.abc import Callable
from functools import cached_property, lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jaxtyping import PyTree

from fewstep._episode import Tasks
from fewstep._learner import Learner
from fewstep._network import Network, flatten
from fewstep._outer import Outer, over_tasks
from fewstep._rule import Rule
from fewstep.evaluation import Validate, make_validate
from fewstep.experiments._fitting import Fitted, Say, TrainedMember, TrainMember
from fewstep.experiments._methods import Method, method_of
from fewstep.experiments._outer_step import moving_average, optimizer_of, outer_of
from fewstep.experiments._problem import make_problem
from fewstep.experiments.experiment import Experiment
from fewstep.learners import Member, residual
from fewstep.outers import OUTERS, refuse_without_signal
from fewstep.problems import Kind, Problem, Value
from fewstep.training import (
    Segment,
    Trained,
    TrainState,
    first_state,
    make_segment,
    state_of,
    train,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Built:
    """What an experiment names, ready to run.

    `like` is another one of the same experiment on tasks of the same shapes, whose compiled programs it uses.
    """

    experiment: Experiment
    kind: Kind
    method: Method
    problem: Problem
    rule: Rule | None
    optimizer: optax.GradientTransformation
    outer: Outer
    like: "Built | None" = None

    @cached_property
    def learner(self) -> Learner:
        """The learner as it is trained."""
        return self.learner_for(self.problem.ways)

    @lru_cache  # noqa: B019  # a learner made twice would be compiled twice
    def learner_for(self, ways: int | None = None, norm: str | None = None) -> Learner:
        """The learner for tasks of so many classes, with some statistics to normalize by."""
        if self.like is not None:
            return self.like.learner_for(ways, norm)
        members = {name: part.member for name, part in self.parts.items()}
        learner = self.method.learner(self.experiment, self.seen, members or self.rule, ways, norm)
        if self.seen is self.problem:
            return learner
        assert self.problem.base is not None
        return residual(learner, self.problem.base.predict, self.problem.x[0], classes=self.problem.classes)

    @cached_property
    def seen(self) -> Problem:
        """The problem as its learner sees it: with a base, the rows have what that says of them behind them."""
        problem = self.problem
        if problem.base is None or self.method.fit is not None:
            return problem
        return problem._replace(x=(problem.x[0] + problem.outputs,), network=problem.base.network)

    @cached_property
    def parts(self) -> dict[str, "Built"]:
        """What it is made of, if it is made of several."""
        like = {} if self.like is None else self.like.parts
        return {
            name: build(experiment, self.problem, like=like.get(name))
            for name, experiment in self.experiment.parts.items()
        }

    @property
    def member(self) -> Member:
        """It as a member of a portfolio."""
        return Member(self.learner, self.inner_steps, len(self.experiment.seed_list), self.samples)

    def again(self, trained: TrainedMember) -> "Built":
        """The same to be trained once more for as long as was best, on the validation tasks too."""
        planned = {"schedule_steps": self.experiment.steps} if self.experiment.has("schedule_steps") else {}
        experiment = self.experiment.replace(all_tasks=True, **planned, **self.method.again(trained))
        assert self.problem.with_validation is not None
        return dataclasses.replace(self, experiment=experiment, problem=self.problem.with_validation(), like=self)

    def first(self) -> TrainState:
        """The state of each seed before training."""
        state = first_state(self.learner, self.optimizer, self.experiment.seed_list)
        metas = self.method.start(self, state.meta)
        if metas is state.meta:
            return state
        return jax.tree.map(jnp.copy, state_of(metas, self.optimizer, jnp.asarray(self.experiment.seed_list)))

    def kept(self, state: TrainState, keep: str | None = None) -> TrainedMember:
        """The parameters to keep of each seed: the last ones, the best on the validation tasks if there are some, or
        the moving average."""
        if not self.experiment.has("keep"):
            return TrainedMember(state.meta, int(state.step))
        keep = keep or self.experiment.keep
        if keep == "average":
            return TrainedMember(moving_average(state), int(state.step))
        best = jnp.isfinite(state.best.score) & (keep == "best")
        choose = lambda new, old: jnp.where(best.reshape(-1, *[1] * (new.ndim - 1)), new, old)
        steps = np.where(best, state.best.step, state.step)
        return TrainedMember(jax.tree.map(choose, state.best.meta, state.meta), round(float(steps.mean())))

    def fit(self, train: TrainMember, say: Say = lambda message: None) -> tuple[TrainState, Fitted]:
        """Fits what is not trained by outer steps; `train(name, part)` trains a part."""
        assert self.method.fit is not None
        fitted = self.method.fit(self, train, say)
        stacked = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], fitted.meta)
        state = state_of(stacked, self.optimizer, jnp.asarray(self.experiment.seed_list))
        return state._replace(step=jnp.asarray(self.experiment.steps)), fitted

    @cached_property
    def network(self) -> Network:
        """The network as it is trained."""
        return self.seen.network(self.problem.ways)

    @property
    def steps(self) -> bool:
        """Whether it learns a task by gradient steps."""
        return self.method.steps

    @property
    def inner_steps(self) -> int:
        """The inner steps in training; 0 for a learner without."""
        return self.experiment.inner_steps if self.steps else 0

    @property
    def samples(self) -> int:
        """How many samples of a rule's masks answer together; one for a method without masks."""
        return self.problem.samples if self.rule is not None and self.rule.draws else 1

    @cached_property
    def training(self) -> Tasks:
        """What it is trained on."""
        return self.method.tasks(self.experiment, self.problem)

    @property
    def validation_ways(self) -> int | None:
        """The classes of a validation task, where they are drawn."""
        return self.experiment.validation_ways if self.problem.ways is not None else None

    def check_data(self) -> None:
        """Reads the data of every split, so that what is wrong with them is said before a long training; and what an
        outer gradient refuses."""
        self._check_outer()
        if not self.problem.splits:
            return
        sizes = self.experiment.shots, self.experiment.queries
        for split, ways in (("train", None), ("validation", self.validation_ways), ("test", None)):
            self.problem.tasks(*sizes, split, ways)
        if self.validation_ways is not None:
            self.learner_for(self.validation_ways)

    def _check_outer(self) -> None:
        """Traces an outer gradient that may refuse what it would not train."""
        if self.outer in (OUTERS["unrolled"](), OUTERS["first_order"]()):
            return
        key = jax.eval_shape(lambda: jax.random.key(0))
        draw, gradient = over_tasks(self.outer(self.learner), self.training, 1)
        drawn = jax.eval_shape(draw, self.training.data, key)
        jax.eval_shape(gradient, jax.eval_shape(self.learner.init, key), drawn)

    @lru_cache  # noqa: B019  # as a segment
    def validation(self) -> tuple[Validate, PyTree]:
        """The compiled validation, and the data of its tasks: the same set for every seed that is trained."""
        experiment, ways = self.experiment, self.validation_ways
        return self._validate, self.problem.tasks(experiment.shots, experiment.queries, "validation", ways).data

    @cached_property
    def _validate(self) -> Validate:
        if self.like is not None:
            return self.like._validate
        experiment, ways = self.experiment, self.validation_ways
        return make_validate(
            self.learner if ways is None else self.learner_for(ways),
            self.problem.tasks(experiment.shots, experiment.queries, "validation", ways), self.problem.validation,
            n_tasks=experiment.validation_tasks, inner_steps=self.inner_steps, seed=0,
        )  # fmt: skip

    @lru_cache  # noqa: B019  # a segment made twice would be compiled twice
    def segment(self, mesh: Mesh | None, chunk: int | None) -> Segment:
        """The compiled steps of its training."""
        if self.like is not None:
            return self.like.segment(mesh, chunk)
        return make_segment(
            self.learner, self.training, self.optimizer, meta_batch=self.experiment.meta_batch, outer=self.outer,
            mesh=mesh, chunk=chunk, small=self.problem.held_out is not None,
        )  # fmt: skip

    def train(
        self, *, state: TrainState | None = None, steps: int | None = None, mesh: Mesh | None = None,
        chunk: int | None = None, **how: Value,
    ) -> Trained:  # fmt: skip
        """Trains it by the experiment's settings: the one call of `train`, on disk and in memory. Validation tasks that
        it is trained on too say nothing. Less than all its `steps` are the first of them: the outer step size falls
        over all."""
        experiment = self.experiment
        also = experiment.has("all_tasks") and experiment.all_tasks
        validate, data = (None, None) if also else self.validation()
        state = self.first() if state is None else state
        if validate and self.problem.labeled is not None and not int(state.step):
            state, _ = validate(jax.tree.map(jnp.copy, state), data)  # a start on good features may be the best
        return train(
            self.learner, self.training, steps=experiment.steps if steps is None else steps, optimizer=self.optimizer,
            meta_batch=experiment.meta_batch, outer=self.outer, seed=experiment.seed_list,
            log_every=experiment.log_every, validate=validate, validation_data=data,
            validate_every=experiment.validate_every, patience=experiment.patience or None, mesh=mesh,
            segment=self.segment(mesh, chunk), state=state, **how,
        )  # fmt: skip


def build(
    experiment: Experiment, problem: Problem | None = None, *, network: Callable[..., object] | None = None,
    like: Built | None = None,
) -> Built:  # fmt: skip
    """Builds an experiment, on its own tasks or on a `problem` that is at hand; `network` may be a function in Python,
    and `like` the same experiment on tasks of the same shapes, built before, whose compiled programs it uses; with a
    base, which is part of the programs, it does not.

    Raises `FewstepError` for unknown names and for what does not fit together.
    """
    kind, method = experiment.kind, method_of(experiment.method, experiment.folder, experiment.kind)
    problem = method.problem(problem or make_problem(experiment, network=network))
    like = like if problem.base is None else None
    method.check(experiment.tasks, problem)
    rule = method.rule(experiment)
    optimizer, outer = optimizer_of(experiment), outer_of(experiment, method)
    built = Built(experiment, kind, method, problem, rule, optimizer, outer, like)
    _ = built.learner  # said now, not when a folder has been made and tracing begins
    if rule is not None and experiment.outer == "reptile":
        _refuse_without_signal(built, rule)
    return built


def _refuse_without_signal(built: Built, rule: Rule) -> None:
    """Reptile's complaint about a rule, before anything is traced."""
    network = built.network
    meta = jax.eval_shape(lambda: built.learner.init(jax.random.key(0)))
    movable = lambda m: {p: leaf for p, leaf in flatten(m["weights"]).items() if p not in network.frozen}
    refuse_without_signal(meta, jax.eval_shape(lambda m: rule.start(network.layers, m, movable(m)), meta))
