"""What a learner is: four functions, and what each of them can rely on."""

import operator
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from fewstep._episode import Batch, Episode, fill_batch, fill_padding
from fewstep._errors import FewstepError
from fewstep._rule import Flat, Meta


class Adapted(NamedTuple):
    """What a task leaves behind: the arrays the inner loop moved, by path, and the network's state on the support."""

    fast: Flat
    state: PyTree


@runtime_checkable
class Init(Protocol):
    """Makes the meta-parameters."""

    def __call__(self, key: Key[Array, ""]) -> Meta: ...


@runtime_checkable
class EpisodeLoss(Protocol):
    """What training minimizes."""

    def __call__(
        self, meta: Meta, key: Key[Array, ""], episode: Episode, *, first_order: bool = False
    ) -> Float[Array, ""]: ...


@runtime_checkable
class Adapt(Protocol):
    """Learns a task. `more` are options of some learners only, such as `pace`."""

    def __call__(
        self, meta: Meta, key: Key[Array, ""], support: Batch, steps: Any, *,
        first_order: bool = False, minibatch: int | None = None, **more: Any,
    ) -> Adapted: ...  # fmt: skip


@runtime_checkable
class Predict(Protocol):
    """The adapted network."""

    def __call__(self, meta: Meta, adapted: Adapted, x: Any, weight: Array | None = None) -> Any: ...


class _Functions(NamedTuple):
    init: Init
    loss: EpisodeLoss
    adapt: Adapt
    predict: Predict


class Learner(_Functions):
    """Something that learns a task from its support set.

    - `init(key)` makes the meta-parameters;
    - `loss(meta, key, episode, *, first_order=False)` is what training minimizes;
    - `adapt(meta, key, support, steps, *, first_order=False, minibatch=None)` learns a task: for a number of steps an
      `Adapted`; for several numbers one `Adapted` with a leading axis, all from one trajectory. By gradients it takes
      `pace` too, which multiplies every step, and `steps` may be an array: one compiled program for any number of
      steps, without a derivative backwards through them;
    - `predict(meta, adapted, x, weight=None)` is the adapted network. `weight` marks padding among the rows of x, which
      a network that normalizes by them needs to know; without it every row counts.

    Whatever a row of weight 0 holds, NaN or a label out of range, no function sees it: it is given a copy of a row that
    counts. Nor does `adapt` see other numbers of steps than an int, a tuple of rising ints, or an array of none.
    """

    __slots__ = ()

    def __new__(cls, init: Init, loss: EpisodeLoss, adapt: Callable[..., Adapted], predict: Predict) -> "Learner":
        return super().__new__(cls, init, _of_filled(loss), _of_filled_support(adapt), _of_filled_rows(predict))

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> "Learner":  # type: ignore[override]  # `_replace` makes another by it
        return cls(*iterable)


def _of_filled(loss: EpisodeLoss) -> EpisodeLoss:
    @wraps(loss)
    def filled(meta: Meta, key: Key[Array, ""], episode: Episode, *, first_order: bool = False) -> Float[Array, ""]:
        return loss(meta, key, Episode(*map(fill_batch, episode)), first_order=first_order)

    return filled


def _of_filled_support(adapt: Callable[..., Adapted]) -> Adapt:
    @wraps(adapt)
    def filled(meta: Meta, key: Key[Array, ""], support: Batch, steps: Any, **options: Any) -> Adapted:
        return adapt(meta, key, fill_batch(support), counts_of(steps), **options)

    return filled


def _of_filled_rows(predict: Predict) -> Predict:
    @wraps(predict)
    def filled(meta: Meta, adapted: Adapted, x: Any, weight: Array | None = None) -> Any:
        x = jnp.asarray(x) if isinstance(x, list) else jax.tree.map(jnp.asarray, x)
        return predict(meta, adapted, x if weight is None else fill_padding(x, weight), weight)

    return filled


def counts_of(steps: Any) -> Any:
    """Numbers of inner steps: an int of anything that is a whole number, a tuple of several; an array of no axis, which
    may be traced, stays one."""
    if isinstance(steps, jax.Array) and steps.ndim == 0:
        return steps
    try:
        asked = tuple(operator.index(count) for count in (steps if _several(steps) else (steps,)))
    except TypeError:
        raise FewstepError(
            f"The number of inner steps is {steps!r}. Give a whole number such as 5, or several such as (0, 1, 5)."
        ) from None
    if not asked or min(asked) < 0 or list(asked) != sorted(set(asked)):
        raise FewstepError(
            f"The numbers of inner steps are {asked}. Give rising numbers, 0 or more, such as (0, 1, 5)."
        )
    return asked if _several(steps) else asked[0]


def _several(steps: Any) -> bool:
    return isinstance(steps, Iterable) and getattr(steps, "ndim", 1) > 0
