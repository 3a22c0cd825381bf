"""What a construction is made for: the box of its examples, how it is cut into bins, and the step that is taken."""

import dataclasses
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fewstep import losses
from fewstep._errors import FewstepError, unknown
from fewstep._learner import Loss

Pair = tuple[float, float]
Activation = Literal["linear", "relu", "framework relu"]
Labels = Literal["numbers", "one-hot", "classes"]
MAX_BYTES = 1e9  # of the blocks from tilde to bar, the largest part of a network; a step holds several of that size
_SINGULAR = (5**0.5 - 1) / 2  # the core of B has the eigenvalue minus this


@dataclasses.dataclass(frozen=True)
class Plan:
    """The sizes of a construction. The defaults are scalar x and y in [-1, 1], one example, 8 bins each.

    **Arguments:**

    - `bins`: J, the bins along each coordinate of x; `query_bins`: L, those of x* (as many, if not given);
    - `x_box`: from where to where each coordinate of x and of x* goes; `y_box` the same for each coordinate of y;
    - `examples`: K, how many examples the step sees;
    - `labels`: "numbers" (y in `y_box`, squared error, examples in bins apart), "one-hot" (y is a row of 0 and one 1,
      squared error, bins hold counts) or "classes" (y is an integer, cross entropy, examples in bins apart), the last
      two with `classes`;
    - `lr`: alpha, the size of the step; `epsilon`: what makes the layers invertible;
    - `activation`: between the layers: "linear" for none, "relu" for one with derivative 1 at 0, "framework relu" for
      JAX's own, whose derivative at 0 is 0.
    """

    bins: int = 8
    query_bins: int | None = None
    x_box: tuple[Pair, ...] = ((-1.0, 1.0),)
    y_box: tuple[Pair, ...] = ((-1.0, 1.0),)
    examples: int = 1
    labels: Labels = "numbers"
    classes: int = 2
    lr: float = 0.1
    epsilon: float = 0.1
    activation: Activation = "linear"

    def __post_init__(self) -> None:
        self._check_each()
        if abs(self.epsilon - _SINGULAR) < 1e-3:
            raise FewstepError(
                f"epsilon is {self.epsilon}, and at {_SINGULAR:.4f} the layers have no inverse. Take another, such as "
                "0.1."
            )
        if self.nbytes > MAX_BYTES:
            raise FewstepError(
                f"{self.J} bins of x and {self.L} of x* make {self.n_layers:,} layers of {self.nbytes / 1e9:.3g} GB, "
                f"and {MAX_BYTES / 1e9:g} GB is the maximum: a step holds several times as much. Take fewer bins, "
                "or fewer coordinates of x."
            )
        if self.labels != "one-hot" and self.examples > self.J:
            raise FewstepError(f"{self.examples} examples do not fit into {self.J} bins, one in each. Take more bins.")
        if self.labels == "classes" and self.activation != "linear":
            raise FewstepError("Cross entropy gives signals below 0, which a ReLU cuts off. Use labels='one-hot'.")

    def _check_each(self) -> None:
        for name, choices in (("labels", Labels), ("activation", Activation)):
            if getattr(self, name) not in get_args(choices):
                raise unknown(name, str(getattr(self, name)), get_args(choices))
        for name in ("bins", "examples", *(("query_bins",) if self.query_bins is not None else ())):
            _check_integer(name, getattr(self, name), 1)
        if self.labels != "numbers":
            _check_integer("classes", self.classes, 2)
        for name in ("x_box", "y_box"):
            _check_box(name, getattr(self, name))
        for name in ("lr", "epsilon"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 < float(value) < np.inf:
                raise FewstepError(f"{name} is {value}. It must be above 0 and finite, such as 0.1.")

    @property
    def shape(self) -> "Plan":
        """The plan without the numbers that live in the network's parameters: equal shapes share compiled programs."""
        return dataclasses.replace(self, epsilon=1.0)

    @property
    def J(self) -> int:
        """Bins of x, all coordinates together."""
        return self.bins ** len(self.x_box)

    @property
    def L(self) -> int:
        """Bins of x*, all coordinates together."""
        return (self.query_bins or self.bins) ** len(self.x_box)

    @property
    def slots(self) -> int:
        """Pairs of a bin of x and one of x*."""
        return self.J * self.L

    @property
    def n_layers(self) -> int:
        """N: a layer for each slot, one before and one after."""
        return self.slots + 2

    @property
    def nbytes(self) -> float:
        """Of the layers' blocks from tilde to bar, in double precision."""
        return 8.0 * self.n_layers * self.slots * self.outputs * (self.J + self.L)

    @property
    def outputs(self) -> int:
        """Numbers that the network predicts."""
        return len(self.y_box) if self.labels == "numbers" else self.classes

    @property
    def chances(self) -> np.ndarray:
        """The probability of each class before the step, where labels are classes.

        It must not be even: the errors of one example of each class would cancel, and the switch stay at 0. The last
        class has the chance 1 / 2K. Its errors in K examples add up to their number of that class less one half.
        """
        last = 0.5 / self.examples
        return np.array([*[(1 - last) / (self.classes - 1)] * (self.classes - 1), last])

    @property
    def offset(self) -> np.ndarray:
        """What the network predicts before the step: so far below y that the error never changes its sign; for classes
        the logits of `chances`."""
        if self.labels == "classes":
            return np.log(self.chances)
        if self.labels == "one-hot":
            return np.zeros(self.outputs)
        return np.array([low - (high - low) for low, high in self.y_box])

    @property
    def loss(self) -> Loss:
        """The loss whose gradient carries y."""
        return losses.cross_entropy if self.labels == "classes" else losses.squared_error

    @property
    def check(self) -> np.ndarray:
        """How the switch enters each output: so that the examples' errors never cancel in the sum; see `chances`."""
        return np.eye(self.classes)[-1] if self.labels == "classes" else np.ones(self.outputs)

    @property
    def min_signal(self) -> float:
        """The smallest that the largest entry of a label's signal can be."""
        if self.labels == "numbers":
            return float(max(2 * (high - low) / self.outputs for low, high in self.y_box))
        return float(1 - self.chances.max()) if self.labels == "classes" else 2 / self.classes

    @property
    def gain(self) -> float:
        """What the step multiplies a signal by on its way into a slot, but for the factors of epsilon."""
        return self.lr / self.examples

    def signal(self, y: Array | np.ndarray) -> Float[Array, "rows outputs"]:
        """Minus the gradient of each row's loss with respect to its prediction, before the step."""
        if self.labels == "classes":
            return jax.nn.one_hot(jnp.asarray(y), self.classes) - self.chances[None]
        return 2 * (jnp.asarray(y) - self.offset[None]) / self.outputs

    def bin_of(self, x: Float[Array, "rows inputs"], *, query: bool = False) -> Int[Array, " rows"]:
        """The number of the bin that each row falls in; what lies outside of the box falls in the nearest."""
        low, high = (jnp.array(side, x.dtype)[None] for side in zip(*self.x_box, strict=True))
        bins = (self.query_bins or self.bins) if query else self.bins
        along = jnp.clip(jnp.floor((x - low) / (high - low) * bins), 0, bins - 1).astype(int)
        return jnp.sum(along * (bins ** jnp.arange(len(self.x_box)))[None], axis=1)

    def centers(self, *, query: bool = False) -> np.ndarray:
        """The middle of each bin, by its number."""
        bins = (self.query_bins or self.bins) if query else self.bins
        along = [low + (high - low) * (np.arange(bins) + 0.5) / bins for low, high in self.x_box]
        grid = np.meshgrid(*along[::-1], indexing="ij")  # the first coordinate runs fastest, as in `bin_of`
        return np.stack([axis.ravel() for axis in grid[::-1]], axis=1)


def _check_integer(name: str, value: object, min_value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < min_value:
        raise FewstepError(f"{name} is {value}. It must be an integer of at least {min_value}.")


def _check_box(name: str, box: Iterable) -> None:
    try:
        hash(box)  # plans are compared when programs are compiled
        ranges = [(float(low), float(high)) for low, high in box]
    except (TypeError, ValueError):
        ranges = []
    if not ranges:
        raise FewstepError(f"{name} is {box!r}. Give a tuple with a range for each coordinate, such as ((-1.0, 1.0),).")
    for low, high in ranges:
        if not -np.inf < low < high < np.inf:
            raise FewstepError(f"{name} has the range ({low}, {high}). Give two finite numbers, the smaller first.")
