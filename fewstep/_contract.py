"""What a learner is: its functions, and what each of them can rely on."""

import inspect
import operator
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from fewstep._episode import Batch, Episode, fill_batch, fill_padding
from fewstep._errors import FewstepError
from fewstep._rule import Flat, Meta

AFTER_TRAINING = 2**31 - 1  # the outer step where nobody trains: whatever is annealed has ended

Step = int | Int[Array, ""]
Result = TypeVar("Result")


class Adapted(NamedTuple):
    """What a task leaves behind: the arrays the inner loop moved, by path, and the network's state on the support."""

    fast: Flat
    state: PyTree


class Carry(NamedTuple):
    """What an inner step hands to the next: the fast weights and the inner optimizer's state."""

    fast: Flat
    memory: PyTree


class Steps(NamedTuple):
    """The inner steps of one task: `start` is carried to the first of them; `take(carry, number)` takes one step."""

    start: Carry
    take: Callable[[Carry, Step], Carry]


@runtime_checkable
class Init(Protocol):
    """Makes meta-parameters."""

    def __call__(self, key: Key[Array, ""], /) -> Meta: ...


@runtime_checkable
class EpisodeLoss(Protocol):
    """What training minimizes. A parameter named `first_order` or `outer_step` is passed if the function has it."""

    def __call__(self, meta: Meta, key: Key[Array, ""], episode: Episode, /) -> Float[Array, ""]: ...


@runtime_checkable
class Adapt(Protocol):
    """Learns a task. A parameter named `first_order`, `minibatch` or `outer_step` is passed if the function has it."""

    def __call__(self, meta: Meta, key: Key[Array, ""], support: Batch, steps: Any, /) -> Adapted: ...


@runtime_checkable
class Predict(Protocol):
    """The adapted network."""

    def __call__(self, meta: Meta, adapted: Adapted, x: PyTree, weight: Array | None = None) -> PyTree: ...


@runtime_checkable
class TakeSteps(Protocol):
    """The inner steps of a task, for a learner that learns by them."""

    def __call__(
        self, meta: Meta, key: Key[Array, ""], support: Batch, *, first_order: bool = False,
        minibatch: int | None = None, step_scale: float | Float[Array, ""] | None = None, sharpness: float = 0.0,
        outer_step: Step = AFTER_TRAINING,
    ) -> Steps: ...  # fmt: skip


class _Functions(NamedTuple):
    init: Init
    loss: Callable[..., Float[Array, ""]]
    adapt: Callable[..., Adapted]
    predict: Predict
    step: TakeSteps | None
    spread: Predict | None


class Learner(_Functions):
    """Something that learns a task from its support set.

    - `init(key)` makes the meta-parameters;
    - `loss(meta, key, episode, *, first_order=False, outer_step=...)` is what training minimizes. By gradients it takes
      `fast` too, weights to use in the place of those that the inner steps lead to, and `sharpness`, as `step` does;
    - `adapt(meta, key, support, steps, *, first_order=False, minibatch=None, outer_step=...)` learns a task: for a
      number of steps an `Adapted`; for several numbers one `Adapted` with a leading axis, all from one trajectory. By
      gradients it takes `step_scale` too, which multiplies every step, and `steps` may be an array: one compiled
      program for any number of steps, without a derivative backwards through them;
    - `predict(meta, adapted, x, weight=None)` is the adapted network. `weight` marks padding among the rows of x, which
      a network that normalizes by them needs to know; without it every row counts;
    - `step(meta, key, support, *, ...)`, with the options of `adapt`, gives the inner steps of a task one by one, as
      `Steps(start, take)`. With `sharpness` above 0 a step follows the gradient that far uphill. It is None for a
      learner that takes none;
    - `spread(meta, adapted, x, weight=None)` is how sure the learner itself is: the standard deviation of each number
      that it predicts. It is None for a learner that does not know.

    Functions that you give need no option that they do not use. Whatever a row of weight 0 holds, NaN or a label out of
    range, no function sees it: it is replaced by a copy of a row that counts. Nor does `adapt` see other numbers of
    steps than an int, a tuple of increasing ints, or an array without axes.
    """

    __slots__ = ()

    def __new__(
        cls, init: Init, loss: EpisodeLoss, adapt: Adapt, predict: Predict, step: TakeSteps | None = None,
        spread: Predict | None = None,
    ) -> "Learner":  # fmt: skip
        of_loss = _of_filled(loss, "first_order", "outer_step")
        of_support = _of_filled(_of_counts(adapt), "first_order", "minibatch", "outer_step")
        of_steps = None if step is None else _of_filled(step)
        of_spread = None if spread is None else _of_filled_rows(spread)
        return super().__new__(cls, init, of_loss, of_support, _of_filled_rows(predict), of_steps, of_spread)

    @classmethod
    def _make(cls, iterable: Iterable) -> "Learner":  # type: ignore[override]  # `_replace` makes another by it
        return cls(*iterable)


def takes(function: Callable[..., Any], option: str) -> bool:
    """Whether a function has a keyword of this name, or takes any."""
    parameters = inspect.signature(function).parameters
    return option in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def accepting(function: Callable[..., Result], *options: str) -> Callable[..., Result]:
    """The function as one that takes these keywords; those that its signature lacks are dropped."""
    lacking = {option for option in options if not takes(function, option)}
    if not lacking:
        return function

    @wraps(function)
    def without(*args: Any, **given: Any) -> Result:
        return function(*args, **{name: value for name, value in given.items() if name not in lacking})

    return without


def _of_filled(function: Callable[..., Result], *options: str) -> Callable[..., Result]:
    """The function of a task, an `Episode` or its support, whose padding is filled."""
    of_options = accepting(function, *options)

    @wraps(function)
    def filled(meta: Meta, key: Key[Array, ""], task: Episode | Batch, *rest: Any, **given: Any) -> Result:
        task = Episode(*map(fill_batch, task)) if isinstance(task, Episode) else fill_batch(task)
        return of_options(meta, key, task, *rest, **given)

    return filled


def _of_counts(adapt: Adapt) -> Adapt:
    @wraps(adapt)
    def counted(meta: Meta, key: Key[Array, ""], support: Batch, steps: Any, **options: Any) -> Adapted:
        if not isinstance(steps, jax.Array) or steps.ndim:  # an array without axes may be traced
            steps = counts_of(steps) if _is_several(steps) else counts_of(steps)[0]
        return adapt(meta, key, support, steps, **options)

    return counted


def _of_filled_rows(predict: Predict) -> Predict:
    @wraps(predict)
    def filled(meta: Meta, adapted: Adapted, x: PyTree, weight: Array | None = None) -> PyTree:
        x = jnp.asarray(x) if isinstance(x, list) else jax.tree.map(jnp.asarray, x)
        return predict(meta, adapted, x if weight is None else fill_padding(x, weight), weight)

    return filled


def counts_of(steps: object) -> tuple[int, ...]:
    """Numbers of inner steps, of one or several of anything that is a whole number."""
    several = steps if _is_several(steps) else (steps,)
    try:
        counts = tuple(map(operator.index, several))  # type: ignore[arg-type]
    except TypeError:
        raise FewstepError(
            f"The number of inner steps is {steps!r}. Give a whole number such as 5, or several such as (0, 1, 5)."
        ) from None
    if not counts or min(counts) < 0 or list(counts) != sorted(set(counts)):
        raise FewstepError(
            f"The numbers of inner steps are {counts}. Give rising numbers, 0 or more, such as (0, 1, 5)."
        )
    return counts


def _is_several(steps: object) -> TypeGuard[Iterable[object]]:
    return isinstance(steps, Iterable) and getattr(steps, "ndim", 1) > 0
