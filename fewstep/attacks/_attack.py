"""What an attack is: a value that turns inputs into nearby inputs which a model answers badly."""

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Num

from fewstep._errors import FewstepError, unknown

Norm = Literal["linf", "l2", "l0", "grid"]
Answers = Callable[[Array], Array]  # of each row by itself, (rows, ...) -> (rows, outputs)
Values = Float[Array, " rows"]
RowValues = Callable[[Array], Values]  # of x, what an attack raises


class Budget(NamedTuple):
    """How far an attacker may move an input, and between which values.

    `eps` is the radius in the attack's norm; it may be traced, so that one program serves several. `low` and `high` are
    the ends of the values, `scale` what the radius is multiplied by, number by number: 0 holds a number fixed. All
    three broadcast to one row of x.
    """

    eps: float | Float[Array, ""]
    low: float | Array = 0.0
    high: float | Array = 1.0
    scale: float | Array = 1.0


@runtime_checkable
class Perturb(Protocol):
    """Moves the rows of x within a budget so that `answers(x)` are worse for the labels y; pure."""

    def __call__(
        self, key: Key[Array, ""], answers: Answers, x: Num[Array, "rows ..."], y: Array, budget: Budget, /
    ) -> Num[Array, "rows ..."]: ...


class Attack(NamedTuple):
    """An attack: `perturb(key, answers, x, y, budget)` gives the perturbed x.

    - `norm` is the one in which a budget is measured;
    - `gradient` says that it derives the answers with respect to x; without, it only asks for answers;
    - `shared` says that all rows, of all tasks, get the same perturbation.
    """

    perturb: Perturb
    norm: Norm
    gradient: bool = True
    shared: bool = False


Objective = Callable[[Array, Array], Values]


def cross_entropy(outputs: Float[Array, "rows ways"], y: Int[Array, " rows"]) -> Values:
    """The cross entropy of each row's logits against its label."""
    return -of_label(jax.nn.log_softmax(outputs), y)


def margin(outputs: Float[Array, "rows ways"], y: Int[Array, " rows"]) -> Values:
    """By how much the best wrong logit is ahead of the label's: above 0 where the answer is wrong."""
    return others(outputs, y) - of_label(outputs, y)


def dlr(outputs: Float[Array, "rows ways"], y: Int[Array, " rows"]) -> Values:
    """The margin, relative to the gap between the largest and the third largest logit: scaling logits changes nothing.

    Reference: Croce & Hein, Reliable Evaluation of Adversarial Robustness, ICML 2020.
    """
    if outputs.shape[1] < 3:
        raise FewstepError(
            f"The objective dlr compares the first with the third logit, and a task has {outputs.shape[1]} classes. "
            "Use 'margin'."
        )
    ranked = jnp.sort(outputs, axis=1)
    return margin(outputs, y) / jnp.maximum(ranked[:, -1] - ranked[:, -3], 1e-12)


def squared_error(outputs: Float[Array, "rows outputs"], y: Float[Array, "rows outputs"]) -> Values:
    """The mean squared error of each row's numbers."""
    return jnp.square(outputs - y).reshape(y.shape[0], -1).mean(axis=1)


OBJECTIVES: dict[str, Objective] = {
    "cross_entropy": cross_entropy, "margin": margin, "dlr": dlr, "squared_error": squared_error,
}  # fmt: skip


def objective_of(name: str | Objective) -> Objective:
    """An objective by name; a function is taken as it is."""
    if not isinstance(name, str):
        return name
    if name not in OBJECTIVES:
        raise unknown("objective", name, OBJECTIVES)
    return OBJECTIVES[name]


def of_label(outputs: Float[Array, "rows ways"], y: Int[Array, " rows"]) -> Values:
    """The output of each row's label."""
    return jnp.take_along_axis(outputs, y[:, None], axis=1)[:, 0]


def others(outputs: Float[Array, "rows ways"], y: Int[Array, " rows"]) -> Values:
    """The largest output of each row that is not its label's."""
    return jnp.where(jax.nn.one_hot(y, outputs.shape[1], dtype=bool), -jnp.inf, outputs).max(axis=1)


def over(values: Array, x: Array) -> Array:
    """One value per row, broadcast to the shape of x."""
    return jnp.broadcast_to(values.reshape(-1, *[1] * (x.ndim - 1)), x.shape)
