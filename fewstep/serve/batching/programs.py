"""The functions that are compiled: many tasks learned in one call, and many adapted models asked in one call."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fewstep._episode import Batch
from fewstep._rule import Meta
from fewstep.models import Info, Members, answer, fits, learn
from fewstep.serve.batching.layout import Layout, from_rows, to_rows
from fewstep.serve.served_model import ServedModel

Outcome = TypeVar("Outcome", tuple[Array, Info], tuple[Members, Array])


def make_learn(
    served: ServedModel, ways: int | None, samples: int, *, detail: bool
) -> Callable[..., tuple[Array, Info]]:
    """The function `(metas, x, y, weight, steps, pace, seed, used)` of several tasks that gives their rows by (seed,
    sample) and their `Info`; of `samples` each task has `used`."""

    def one(
        metas: Meta, x: Array, y: Array, weight: Array, steps: Array, pace: Array, seed: Array, used: Array
    ) -> tuple[Array, Info]:
        adapted, info = learn(
            served.model, jax.random.key(seed), Batch(x, y, weight), metas=metas, steps=steps, step_scale=pace,
            samples=samples, used=used, ways=ways, detail=detail,
        )  # fmt: skip
        return to_rows(adapted), info

    return _over_tasks(served, one)


def make_answer(served: ServedModel, ways: int | None, layout: Layout) -> Callable[..., tuple[Members, Array]]:
    """The function `(metas, rows, samples, x)` of several tasks that gives the answers of their members, and how well
    each row fits the best of the classes, where the model can tell that it fits none."""

    def one(metas: Meta, rows: Array, samples: Array, x: Array) -> tuple[Members, Array]:
        adapted, model = from_rows(layout, rows), served.model
        fit = fits(model, adapted, x, metas=metas, ways=ways) if model.rejection else jnp.zeros(len(x))
        return answer(model, adapted, x, metas=metas, used=samples, ways=ways), fit

    return _over_tasks(served, one)


def _over_tasks(served: ServedModel, function: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """The function over a leading axis of tasks: side by side for small networks; one after the other where one task
    alone fills a processor's cache."""
    if served.heavy:
        return lambda metas, *arrays: jax.lax.map(lambda each: function(metas, *each), arrays)
    return lambda metas, *arrays: jax.vmap(partial(function, metas))(*arrays)
