"""The functions that are compiled: many tasks learned in one call, and many adapted models asked in one call."""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array

from fewstep._episode import Batch
from fewstep._rule import Meta
from fewstep.models import Info, Members, answer, learn
from fewstep.serve.batching.layout import Layout, from_rows, to_rows
from fewstep.serve.served_model import ServedModel
from fewstep.serve.task import Settings


def make_learn(
    served: ServedModel, ways: int | None, samples: int, *, detail: bool
) -> Callable[..., tuple[Array, Info]]:
    """The function `(metas, x, y, weight, settings)` of several tasks that gives their rows by (seed, sample) and their
    `Info`; `samples` is the largest number of samples."""

    def one(metas: Meta, x: Array, y: Array, weight: Array, settings: Settings) -> tuple[Array, Info]:
        adapted, info = learn(
            served.model, jax.random.key(settings.seed), Batch(x, y, weight), metas=metas, steps=settings.steps,
            step_scale=settings.pace, samples=samples, used=settings.samples, ways=ways, detail=detail,
        )  # fmt: skip
        return to_rows(adapted), info

    return _over_tasks(served, one, 5)


def make_answer(served: ServedModel, ways: int | None, layout: Layout) -> Callable[..., Members]:
    """The function `(metas, rows, samples, x)` of several tasks that gives the answers of their members."""

    def one(metas: Meta, rows: Array, samples: Array, x: Array) -> Members:
        return answer(served.model, from_rows(layout, rows), x, metas=metas, used=samples, ways=ways)

    return _over_tasks(served, one, 4)


def _over_tasks(served: ServedModel, function: Callable[..., Any], arguments: int) -> Callable[..., Any]:
    """The function over a leading axis of tasks: side by side for small networks; one after the other where one task
    alone fills a processor's cache."""
    if served.kind.heavy:
        return lambda metas, *arrays: jax.lax.map(lambda each: function(metas, *each), arrays)
    return jax.vmap(function, (None, *[0] * (arguments - 1)))
