"""Builds the network that one gradient step turns into a given learner."""

from functools import lru_cache
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fewstep._episode import Batch
from fewstep._errors import FewstepError, unknown
from fewstep._learner import Adapted, Learner, gradient_learner
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.compute import light
from fewstep.rules import maml
from fewstep.universality._network import Apply, make_apply, network
from fewstep.universality._readout import knots_of, mlp_of, mlp_reader, table_of, table_reader
from fewstep.universality._target import Target
from fewstep.universality.plan import Plan


class Construction(NamedTuple):
    """A network made by hand, and the ordinary learner of MAML with one step on it; `meta` are its parameters."""

    plan: Plan
    network: Network
    learner: Learner
    meta: Meta

    def adapt(self, x: ArrayLike, y: ArrayLike) -> Adapted:
        """One gradient step on the examples x (K, inputs) and y (K, outputs)."""
        support = Batch(*self._check(x, y), jnp.ones(self.plan.examples))
        adapt = jax.jit(self.learner.adapt, static_argnums=3, compiler_options=light())
        return adapt(self.meta, jax.random.key(0), support, 1)

    def learn(self, x: ArrayLike, y: ArrayLike, x_star: ArrayLike) -> np.ndarray:
        """The network's predictions for rows of x* (n, inputs) after one gradient step on the examples."""
        queries = np.asarray(x_star, float)
        if queries.ndim != 2 or queries.shape[1] != len(self.plan.x_box):
            raise FewstepError(f"x_star has shape {queries.shape}. Give rows: (n, {len(self.plan.x_box)}).")
        _check_range("x_star", queries, self.plan.x_box, "x_box")
        predict = jax.jit(self.learner.predict, compiler_options=light())
        return np.asarray(predict(self.meta, self.adapt(x, y), jnp.asarray(queries)))

    def _check(self, x: ArrayLike, y: ArrayLike) -> tuple[jax.Array, jax.Array]:
        plan = self.plan
        x, y = np.asarray(x, float), np.asarray(y)
        y_shape = (plan.examples,) if plan.labels == "classes" else (plan.examples, plan.outputs)
        for name, shape, expected in (("x", x.shape, (plan.examples, len(plan.x_box))), ("y", y.shape, y_shape)):
            if shape != expected:
                raise FewstepError(f"{name} has shape {shape}. This construction was made for {expected}.")
        _check_range("x", x, plan.x_box, "x_box")
        if plan.labels == "numbers":
            _check_range("y", y, plan.y_box, "y_box")
        elif not _are_labels(y, plan):
            raise FewstepError(f"y is {y.tolist()}. {plan.labels!r} labels of {plan.classes} classes are required.")
        if plan.labels != "one-hot":
            bins = np.asarray(plan.bin_of(jnp.asarray(x)))
            if len(set(bins.tolist())) < plan.examples:
                raise FewstepError(
                    f"The examples fall into the bins {bins.tolist()}. Two in one bin add up to one that was never "
                    "there. Take more bins, or one-hot labels, whose bins count."
                )
        return jnp.asarray(x), jnp.asarray(y, int if plan.labels == "classes" else float)


def construct(
    target: Target,
    plan: Plan | None = None,
    *,
    readout: Literal["table", "mlp"] = "table",
    knots: int | None = None,
    seed: int = 0,
) -> Construction:
    """Builds the network that one gradient step of MAML turns into `target(x, y, x_star)`.

    **Arguments:** the target takes x of shape (K, inputs), y of shape (K, outputs), or (K,) for classes, and x* of
    shape (inputs,), and gives as many numbers as y has; the order of the examples must not matter to it. `plan` has the
    sizes. `readout` is how the last part knows the target: a table with `knots`
    values of each y (17, if the table has room for them), or a perceptron.

    **Returns:** a `Construction`. Raises `FewstepError` for a target that fails, or gives another shape or NaN.

    Example::

        built = construct(ridge, Plan(bins=8))
        built.learn([[0.5]], [[0.8]], [[-1.0], [0.0], [1.0]])
    """
    plan = plan or Plan()
    if readout not in ("table", "mlp"):
        raise unknown("readout", readout, ("table", "mlp"))
    knots = knots_of(plan, knots)
    table = table_of(plan, target, knots) if readout == "table" else mlp_of(plan, target, seed=seed)
    apply, learner = _share(plan.shape, readout, knots)
    net = network(plan, apply, table)
    learner = learner._replace(init=lambda key: {"weights": net.init(key)})
    return Construction(plan, net, learner, learner.init(jax.random.key(seed)))


@lru_cache(maxsize=64)
def _share(shape: Plan, readout: str, knots: int) -> tuple[Apply, Learner]:
    """The parts that constructions of one shape share, so that they are compiled once."""
    apply = make_apply(shape, table_reader(shape, knots) if readout == "table" else mlp_reader(shape))
    return apply, gradient_learner(Network(lambda key: {}, apply, ()), maml(shape.lr), shape.loss)


def _are_labels(y: np.ndarray, plan: Plan) -> bool:
    if plan.labels == "classes":
        return bool(np.isin(y, np.arange(plan.classes)).all())
    return bool(np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all())


def _check_range(name: str, values: np.ndarray, box: tuple[tuple[float, float], ...], option: str) -> None:
    for number, (low, high) in enumerate(box):
        column = values[:, number]
        if not ((column >= low) & (column <= high)).all():
            raise FewstepError(
                f"{name} is {column.tolist()} in coordinate {number}, and the construction was made for {low:g} to "
                f"{high:g}. Stay inside, or construct for a wider {option}."
            )
