"""What a construction is made for: the box of its examples, how it is cut into bins, and the step that is taken."""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fewstep import losses
from fewstep._errors import FewstepError
from fewstep._learner import Loss

Pair = tuple[float, float]
Activation = Literal["linear", "relu", "framework relu"]
Labels = Literal["numbers", "one-hot", "classes"]
MOST_LAYERS = 5000


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
        for name in ("bins", "query_bins", "examples"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise FewstepError(f"{name} is {value}. It must be at least 1.")
        if self.labels != "numbers" and self.classes < 2:
            raise FewstepError(f"classes is {self.classes}. It must be at least 2.")
        for name in ("x_box", "y_box"):
            for low, high in getattr(self, name):
                if not -np.inf < low < high < np.inf:
                    raise FewstepError(f"{name} has the range ({low}, {high}). Give a finite range that rises.")
        for name in ("lr", "epsilon"):
            if not 0 < getattr(self, name) < np.inf:
                raise FewstepError(f"{name} is {getattr(self, name)}. It must be above 0 and finite, such as 0.1.")
        if self.n_layers > MOST_LAYERS:
            raise FewstepError(
                f"{self.J} bins of x and {self.L} of x* make {self.n_layers:,} layers, and {MOST_LAYERS:,} is the "
                "most. Take fewer bins."
            )
        if self.labels == "numbers" and self.examples > self.J:
            raise FewstepError(f"{self.examples} examples do not fit into {self.J} bins, one in each. Take more bins.")
        if self.labels == "classes" and self.activation != "linear":
            raise FewstepError("Cross entropy gives signals below 0, which a ReLU cuts off. Use labels='one-hot'.")

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
    def outputs(self) -> int:
        """Numbers that the network predicts."""
        return len(self.y_box) if self.labels == "numbers" else self.classes

    @property
    def offset(self) -> np.ndarray:
        """What the network predicts before the step: so far below y that the error never changes its sign."""
        if self.labels != "numbers":
            return np.zeros(self.outputs)
        return np.array([low - (high - low) for low, high in self.y_box])

    @property
    def loss(self) -> Loss:
        """The loss whose gradient carries y."""
        return losses.cross_entropy if self.labels == "classes" else losses.squared_error

    @property
    def check(self) -> np.ndarray:
        """How the switch enters each output: so that no label's error cancels in the sum."""
        if self.labels != "classes":
            return np.ones(self.outputs)
        return np.arange(1.0, self.classes + 1) + 0.5 * (np.arange(self.classes) == self.classes - 1)

    @property
    def least_signal(self) -> float:
        """The smallest that the largest entry of a label's signal can be."""
        if self.labels == "numbers":
            return float(max(2 * (high - low) / self.outputs for low, high in self.y_box))
        return 1 - 1 / self.classes if self.labels == "classes" else 2 / self.classes

    @property
    def gain(self) -> float:
        """What the step multiplies a signal by on its way into a slot, but for the factors of epsilon."""
        return self.lr / self.examples

    def signal(self, y: Any) -> Float[Array, "rows outputs"]:
        """Minus the gradient of each row's loss with respect to its prediction, before the step."""
        if self.labels == "classes":
            return jax.nn.one_hot(jnp.asarray(y), self.classes) - 1 / self.classes
        return 2 * (jnp.asarray(y) - self.offset[None]) / self.outputs

    def bin_of(self, x: Float[Array, "rows inputs"], *, query: bool = False) -> Int[Array, " rows"]:
        """The number of the bin that each row falls in; what lies outside of the box falls in the nearest."""
        low, high = (jnp.array(side, x.dtype)[None] for side in zip(*self.x_box, strict=True))
        bins = (self.query_bins or self.bins) if query else self.bins
        along = jnp.clip(jnp.floor((x - low) / (high - low) * bins), 0, bins - 1).astype(int)
        return jnp.sum(along * (bins ** jnp.arange(len(self.x_box)))[None], axis=1)

    def centres(self, *, query: bool = False) -> np.ndarray:
        """The middle of each bin, by its number."""
        bins = (self.query_bins or self.bins) if query else self.bins
        along = [low + (high - low) * (np.arange(bins) + 0.5) / bins for low, high in self.x_box]
        grid = np.meshgrid(*along[::-1], indexing="ij")  # the first coordinate runs fastest, as in `bin_of`
        return np.stack([axis.ravel() for axis in grid[::-1]], axis=1)
