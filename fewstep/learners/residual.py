r"""A learner that stands on a base: a prediction from each row alone, which it sees, and whose residual it adapts.

    prediction(x) = b(x) + f(x, b(x); support with y - b(x))

b is fitted before, to the training tasks, and does not change. In training, rows have b behind them already, from a fit
without their own task, so that f learns residuals as large as those of a new task. Classes have no residual: there b
are logits among the features, to which a network may add.

Reference: Wolpert, Stacked generalization, Neural Networks 1992.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._episode import Batch, Episode
from fewstep._learner import Adapted, Learner
from fewstep._rule import Meta

Predict = Callable[[Float[Array, "rows inputs"]], Float[Array, "rows outputs"]]


def residual(learner: Learner, base: Predict, inputs: int, *, classes: bool = False) -> Learner:
    """The learner on a base.

    **Arguments:** `learner` is one of rows of `inputs` numbers and those that `base` predicts of them. A row that has
    these behind it already is taken as it is.

    Example::

        learner = residual(learners.ridge(networks.mlp(3, 32), features=32), lambda x: x[:, :1], inputs=2)
    """

    def seen(x: Float[Array, "rows d"]) -> Float[Array, "rows e"]:
        return x if x.shape[1] > inputs else jnp.concatenate([x, base(jax.lax.stop_gradient(x))], axis=1)

    def over(batch: Batch) -> Batch:
        """What is left over of the rows."""
        x = seen(batch.x)
        return batch._replace(x=x, y=batch.y if classes else batch.y - x[:, inputs:])

    def loss(meta: Meta, key: Key[Array, ""], episode: Episode, **options: Any) -> Float[Array, ""]:
        return learner.loss(meta, key, Episode(over(episode.support), over(episode.query)), **options)

    def adapt(meta: Meta, key: Key[Array, ""], support: Batch, steps: Any, **options: Any) -> Adapted:
        return learner.adapt(meta, key, over(support), steps, **options)

    def step(meta: Meta, key: Key[Array, ""], support: Batch, **options: Any) -> Any:
        assert learner.step is not None
        return learner.step(meta, key, over(support), **options)

    def predict(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        x = seen(x)
        y = learner.predict(meta, adapted, x, weight)
        return y if classes else y + x[:, inputs:]

    def spread(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        assert learner.spread is not None
        return learner.spread(meta, adapted, seen(x), weight)

    return Learner(
        learner.init, loss, adapt, predict, None if learner.step is None else step,
        None if learner.spread is None else spread,
    )  # fmt: skip
