"""A trained model is a value: a learner, the meta-parameters of its seeds, and two pure functions, learn and answer."""

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from fewstep import losses
from fewstep._episode import Batch
from fewstep._errors import FewstepError
from fewstep._learner import Adapted, Learner
from fewstep._rule import Meta
from fewstep.experiments import Built, Experiment, weight_sizes
from fewstep.models._calibration import Calibration
from fewstep.models._choice import Choice
from fewstep.models._layers import moved, unit_shares
from fewstep.problems import Kind, Problem, moments

if TYPE_CHECKING:
    from fewstep.models._reject import Rejection


class LogLine(NamedTuple):
    """One line of a training's log: the mean loss of a seed over some steps, and its score if it was validated."""

    step: int
    seed: int
    loss: float
    gradient_norm: float
    validation: float | None


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A trained model: what it was built of, the meta-parameters of each seed, and how sure it may be.

    `step` is the outer step that it was trained to. `samples` of a rule's random masks answer together. Intervals are
    right for the inner steps, samples and parameters they were calibrated with: elsewhere there is no `calibration`.
    `history` is the log of its training, `notes` are what a user should know of how it was loaded, and `rejection` how
    well a query must fit the classes of its task. `choice` says of which methods it is the best, if it was chosen.
    """

    built: Built
    metas: dict[int, Meta]
    step: int
    calibration: Calibration | None = None
    history: tuple[LogLine, ...] = ()
    notes: tuple[str, ...] = ()
    rejection: "Rejection | None" = None
    choice: Choice | None = None

    @property
    def experiment(self) -> Experiment:
        """The experiment that it was trained by."""
        return self.built.experiment

    @property
    def kind(self) -> Kind:
        """The kind of its problem."""
        return self.built.kind

    @property
    def problem(self) -> Problem:
        """Its problem."""
        return self.built.problem

    @property
    def steps(self) -> int:
        """The inner steps it was trained with."""
        return self.built.inner_steps

    @property
    def samples(self) -> int:
        """The samples of masks that answer together if no other number is asked for."""
        return self.built.samples

    @cached_property
    def finite(self) -> dict[int, Meta]:
        """The meta-parameters of the seeds that did not diverge in training, by seed."""
        whole = lambda meta: all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(meta))
        return {seed: meta for seed, meta in self.metas.items() if whole(meta)}

    @cached_property
    def stacked(self) -> Meta:
        """The meta-parameters of all seeds that did not diverge, one behind the other."""
        if not self.finite:
            raise FewstepError("Every seed of the model has diverged. Train again with a smaller `inner_lr`.")
        with jax.ensure_compile_time_eval():  # it may be asked for first while a program is traced
            return jax.tree.map(lambda *leaves: jnp.stack(leaves), *self.finite.values())

    @cached_property
    def parts(self) -> dict[str, "Model"]:
        """The models that it is made of, by name, if it is made of several."""
        whole = self.meta()
        models = {}
        for name, built in self.built.parts.items():
            seeds = enumerate(built.experiment.seed_list)
            metas = {seed: jax.tree.map(lambda leaf, n=n: leaf[n], whole["members"][name]) for n, seed in seeds}
            models[name] = Model(built, metas, self.step)
        return models

    @property
    def weights(self) -> dict[int, dict[str, float]]:
        """The weight of each of its parts by the number of rows learned from, if it is made of several."""
        if not self.built.parts:
            return {}
        of_sizes = np.asarray(self.meta()["weights"]).tolist()
        sizes = weight_sizes(self.experiment.shots)
        return {size: dict(zip(self.built.parts, row, strict=True)) for size, row in zip(sizes, of_sizes, strict=True)}

    def meta(self, seed: int | None = None) -> Meta:
        """The meta-parameters of one of its seeds, the first by default."""
        if seed is not None and seed not in self.metas:
            raise FewstepError(f"The run has no seed {seed}. It has {', '.join(map(str, self.metas))}.")
        return self.metas[next(iter(self.metas)) if seed is None else seed]

    def learner(self, ways: int | None = None, norm: str | None = None) -> Learner:
        """The learner for tasks of so many classes (as in training if `None`); queries are answered each for itself,
        by the statistics of the support, unless `norm` says otherwise."""
        problem = self.problem
        return self.built.learner_for(problem.ways if ways is None else ways, norm or problem.support_norm)


class Info(NamedTuple):
    """What adapting did, the mean over seeds and samples: the support's loss before and after, whether all is finite,
    how far each layer moved, and how far a mask let each of its units move; `residual` is the root of the mean square
    of what all members together leave over on the support, of each output where intervals are made of it."""

    loss_before: Float[Array, ""]
    loss_after: Float[Array, ""]
    finite: Array
    moved: Float[Array, " layers"]
    units: Float[Array, " units"]
    residual: Float[Array, " outputs"]


class Members(NamedTuple):
    """The answers of all members at some rows: mean, smallest, largest and deviation over seeds and samples."""

    mean: Array
    low: Array
    high: Array
    spread: Array


def learn(
    model: Model, key: Key[Array, ""], support: Batch, *, metas: Meta | None = None, steps: int | Array | None = None,
    step_scale: float | Array | None = None, samples: int | None = None, used: int | Array | None = None,
    ways: int | None = None, norm: str | None = None, detail: bool = False,
) -> tuple[Adapted, Info]:  # fmt: skip
    """Adapts every seed and sample of the masks to a task; pure, to be compiled, and mapped over tasks.

    **Arguments:** `metas` the stacked meta-parameters, as an argument of a compiled program; inner `steps` and their
    `step_scale`, which may be traced; of `samples` only the first `used` count in `Info`, so that one program serves
    several numbers; `detail` asks for what happened to each layer.

    **Returns:** what was adapted, with axes of seeds and samples in front, and `Info`.
    """
    learner, loss = model.learner(ways, norm), model.problem.loss
    count = model.samples if samples is None else samples
    used = jnp.asarray(count if used is None else used)
    steps = model.steps if steps is None else steps
    options = {} if step_scale is None else {"step_scale": step_scale}

    def one(meta: Meta, number: Array) -> tuple[Adapted, tuple[Array, ...]]:
        own = jax.random.fold_in(key, number)
        start = learner.adapt(meta, own, support, 0)
        end = learner.adapt(meta, own, support, steps, **options) if model.built.steps else start
        value = lambda adapted: loss(learner.predict(meta, adapted, support.x, support.weight), support)
        layers = model.built.network.layers if detail and model.built.rule is not None else ()
        units = unit_shares(layers, model.built.rule, meta, own)
        fit = learner.predict(meta, end, support.x, support.weight) if _has_residual(model) else jnp.zeros((1, 1))
        return end, (value(start), value(end), moved(layers, start, end), units, fit)

    over_samples = jax.vmap(one, (None, 0))
    metas = model.stacked if metas is None else metas
    adapted, facts = jax.vmap(over_samples, (0, None))(metas, jnp.arange(count))
    before, after, distance, units, fit = (_mean(values, used) for values in facts)
    counting = [jnp.where(_counts(leaf, used), leaf, 0) for leaf in jax.tree.leaves(adapted)]
    sound = [jnp.isfinite(leaf).all() for leaf in counting if jnp.issubdtype(leaf.dtype, jnp.floating)]
    finite = jnp.isfinite(before) & jnp.isfinite(after) & jnp.all(jnp.asarray(sound, bool))
    left_over = losses.root_by_output(fit, support) if _has_residual(model) else jnp.zeros(1)
    return adapted, Info(before, after, finite, distance, units, left_over)


def _has_residual(model: Model) -> bool:
    """Whether intervals may be made for it: of numbers, where tasks are a list."""
    return model.problem.held_out is not None and not model.problem.classes


def answer(
    model: Model, adapted: Adapted, x: Array, *, metas: Meta | None = None, used: int | Array | None = None,
    ways: int | None = None, norm: str | None = None,
) -> Members:  # fmt: skip
    """What the adapted members say at rows of x, as numbers or probabilities; pure. Arguments as in `learn`.

    The spread is that between the members, and beside it that which each of them reports itself, if it does."""
    learner = model.learner(ways, norm)

    def one(meta: Meta, member: Adapted) -> tuple[Array, Array]:
        return moments(learner, meta, member, x, classes=model.problem.classes)

    metas = model.stacked if metas is None else metas
    members, own = jax.vmap(jax.vmap(one, (None, 0)))(metas, adapted)
    used = jnp.asarray(members.shape[1] if used is None else used)
    counts, mean = _counts(members, used), _mean(members, used)
    low, high = jnp.where(counts, members, jnp.inf).min((0, 1)), jnp.where(counts, members, -jnp.inf).max((0, 1))
    return Members(mean, low, high, jnp.sqrt(_mean(jnp.square(members - mean[None, None]) + own, used)))


def _counts(values: Array, used: Array) -> Array:
    """Which of (seed, sample, ...) count: samples may be padded."""
    return (jnp.arange(values.shape[1]) < used).reshape(1, -1, *[1] * (values.ndim - 2))


def _mean(values: Array, used: Array) -> Array:
    return jnp.where(_counts(values, used), values, 0).sum((0, 1)) / (values.shape[0] * used)
