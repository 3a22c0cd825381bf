"""From an experiment to what it names: problem, rule, learner, optimizer, outer gradient."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import cached_property, lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jaxtyping import PyTree

from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep._learner import Learner
from fewstep._network import Network, flatten
from fewstep._outer import Outer, over_tasks
from fewstep._rule import Rule
from fewstep.evaluation import Validate, make_validate
from fewstep.experiments._fitting import Fitted, Say, TrainedMember, TrainMember
from fewstep.experiments._methods import Method, method_of
from fewstep.experiments.experiment import Experiment
from fewstep.files import function_of
from fewstep.learners import Member, residual
from fewstep.outers import OUTERS, refuse_without_signal
from fewstep.problems import Kind, Options, Problem, Value
from fewstep.training import (
    Segment,
    Trained,
    TrainState,
    average_of,
    averaging,
    first_state,
    make_segment,
    state_of,
    train,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Built:
    """What an experiment names, ready to run.

    `like` is another one on tasks of the same shapes, whose compiled programs it uses.
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
        return {name: build(experiment, self.problem) for name, experiment in self.experiment.parts.items()}

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
            return TrainedMember(_average(state), int(state.step))
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

    def validation(self) -> tuple[Validate, PyTree]:
        """The compiled validation, and the data of its tasks: the same set for every seed that is trained."""
        experiment, ways = self.experiment, self.validation_ways
        tasks = self.problem.tasks(experiment.shots, experiment.queries, "validation", ways)
        validate = make_validate(
            self.learner if ways is None else self.learner_for(ways), tasks, self.problem.validation,
            n_tasks=experiment.validation_tasks, inner_steps=self.inner_steps, seed=0,
        )  # fmt: skip
        return validate, tasks.data

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
        self, *, state: TrainState | None = None, mesh: Mesh | None = None, chunk: int | None = None, **how: Value
    ) -> Trained:  # fmt: skip
        """Trains it by the experiment's settings: the one call of `train`, on disk and in memory. What is trained like
        another is trained on its validation tasks too, which say nothing then."""
        experiment = self.experiment
        validate, data = (None, None) if self.like is not None else self.validation()
        state = self.first() if state is None else state
        if validate and self.problem.labeled is not None and not int(state.step):
            state, _ = validate(jax.tree.map(jnp.copy, state), data)  # a start on good features may be the best
        return train(
            self.learner, self.training, steps=experiment.steps, optimizer=self.optimizer,
            meta_batch=experiment.meta_batch, outer=self.outer, seed=experiment.seed_list,
            log_every=experiment.log_every, validate=validate, validation_data=data,
            validate_every=experiment.validate_every, patience=experiment.patience or None, mesh=mesh,
            segment=self.segment(mesh, chunk), state=state, **how,
        )  # fmt: skip


def build(
    experiment: Experiment, problem: Problem | None = None, *, network: Callable[..., object] | None = None
) -> Built:
    """Builds an experiment, on its own tasks or on a `problem` that is at hand; `network` may be a function in Python.

    Raises `FewstepError` for unknown names and for what does not fit together.
    """
    kind, method = experiment.kind, method_of(experiment.method, experiment.folder)
    problem = problem or make_problem(experiment, network=network)
    method.check(experiment.tasks, problem)
    rule = method.rule(experiment)
    built = Built(experiment, kind, method, problem, rule, _optimizer(experiment), _outer(experiment, method))
    _ = built.learner  # said now, not when a folder has been made and tracing begins
    if rule is not None and experiment.outer == "reptile":
        _refuse_without_signal(built, rule)
    return built


def make_problem(experiment: Experiment, *, network: Callable[..., object] | None = None) -> Problem:
    """The problem of an experiment."""
    tasks, options = experiment.located(experiment.tasks), experiment.kind_options
    return experiment.kind.problem(tasks, options, network_options(experiment, network))


@dataclasses.dataclass(frozen=True)
class _Network:
    """A network that was given as a function in Python, and its loss."""

    network: Callable[..., object]
    loss: str


def network_options(experiment: Experiment, network: Callable[..., object] | None = None) -> Options:
    """The network's options with the paths of a user's own files; the kind's own where the method has none. `network`
    may be a function in Python."""
    if network is not None:
        return _Network(network, network_options(experiment).loss)
    if not experiment.has("network"):
        return experiment.kind.network(experiment.tasks)()
    group = next(group for group in experiment.groups if "network" in group.__dataclass_fields__)
    own = {name: experiment.located(getattr(group, name)) for name in ("network", "loss") if hasattr(group, name)}
    group = dataclasses.replace(group, **own)
    return group if hasattr(group, "loss") else _WithLoss(group)


class _WithLoss:
    """A network's options with the usual loss, for a method that has one of its own."""

    loss = "usual"

    def __init__(self, group: Options):
        self._group = group

    def __getattr__(self, name: str) -> Value:
        return getattr(self._group, name)


def _refuse_without_signal(built: Built, rule: Rule) -> None:
    """Reptile's complaint about a rule, before anything is traced."""
    network = built.network
    meta = jax.eval_shape(lambda: built.learner.init(jax.random.key(0)))
    movable = lambda m: {p: leaf for p, leaf in flatten(m["weights"]).items() if p not in network.frozen}
    refuse_without_signal(meta, jax.eval_shape(lambda m: rule.start(network.layers, m, movable(m)), meta))


def _outer(experiment: Experiment, method: Method) -> Outer:
    if not experiment.has("outer"):
        return OUTERS["unrolled"]()
    name = experiment.outer
    if method.outer and name != method.outer:
        raise FewstepError(f"{method.name} takes its outer gradient by {method.outer}; `outer={name!r}` contradicts.")
    if name not in OUTERS:
        return function_of("outer", experiment.located(name), "(learner)", dict.fromkeys(OUTERS))
    takes = inspect.signature(OUTERS[name]).parameters
    options = {option: _located(experiment, experiment.value(option)) for option in takes if experiment.has(option)}
    return OUTERS[name](**(options | ({"steps": experiment.inner_steps} if "steps" in takes else {})))


def _located(experiment: Experiment, value: Value) -> Value:
    return experiment.located(value) if isinstance(value, str) else value


def _optimizer(experiment: Experiment) -> optax.GradientTransformation:
    if not experiment.has("outer_lr"):  # nothing is trained by outer steps
        return optax.sgd(0.0)
    if experiment.has("keep") and experiment.keep == "average" and not experiment.ema:
        raise FewstepError("`keep` is 'average', and `ema` is 0: no moving average is kept. Give `ema=0.999` too.")
    lr, steps = experiment.outer_lr, experiment.schedule_steps or experiment.steps
    rate = {
        "constant": lambda: lr,
        "linear": lambda: optax.linear_schedule(lr, 0.0, steps),
        "cosine": lambda: optax.cosine_decay_schedule(lr, max(steps, 1)),
    }[experiment.schedule]()
    clip = optax.identity()
    if experiment.clip_value > 0:
        clip = optax.clip(experiment.clip_value)
    elif experiment.clip_norm > 0:
        clip = optax.clip_by_global_norm(experiment.clip_norm)
    plain = optax.chain(clip, optax.adam(rate) if experiment.outer_optimizer == "adam" else optax.sgd(rate))
    return averaging(plain, experiment.ema) if experiment.ema else plain


def _average(state: TrainState) -> PyTree:
    average = average_of(state)
    if average is None:
        raise FewstepError("No moving average was kept: `ema` is 0. Train with it, such as `ema=0.999`.")
    return average


def plans_for_its_steps(experiment: Experiment) -> bool:
    """Whether the outer step size depends on the number of steps, so that raising it later changes the past."""
    return experiment.has("schedule") and experiment.schedule != "constant"
