"""Curves: rows of numbers in, rows of numbers out; random tasks come with the curve itself."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._episode import Batch
from fewstep.serve.errors import invalid
from fewstep.serve.parsing import check_fields, number_rows
from fewstep.serve.schema import Curve, Points, Query, Support, TaskResponse
from fewstep.serve.served_model import Sampler, ServedModel, ServingKind, Shapes
from fewstep.serve.task import Examples, Rows, with_band

_PLACES = 200  # of a random task's curve
_SHOTS = 100
_TASKS = 256  # tasks whose values give the range of y


def _parse_support(model: ServedModel, support: Support) -> Examples:
    check_fields(support, "support", "x", "y")
    inputs, outputs = model.problem.widths
    x = number_rows(support.x, "support.x", inputs, model.limits.points)
    return Examples(x, number_rows(support.y, "support.y", outputs, model.limits.points))


def _parse_query(model: ServedModel, query: Query) -> Rows:
    check_fields(query, "query", "x")
    return Rows(number_rows(query.x, "query.x", model.problem.widths[0], model.limits.queries))


def _shapes(model: ServedModel) -> Shapes:
    tasks = model.problem.tasks(1, 32)

    @jax.jit
    def queries(key: jax.Array) -> jax.Array:
        return jax.vmap(lambda key: tasks.sample(tasks.data, key).query.y)(jax.random.split(key, _TASKS))

    y = np.asarray(queries(jax.random.key(0)))
    low, high = np.asarray(tasks.data["x_range"]).tolist()
    return Shapes(*model.problem.widths, x_range=[low, high], y_range=[float(y.min()), float(y.max())])


def _task_source(model: ServedModel) -> str:
    if model.problem.widths[0] != 1:
        raise invalid("does_not_apply", "The model's x has more than one number, so no curve can be drawn.")
    return "test"


def _make_sampler(model: ServedModel, source: str) -> Sampler:
    """Draws as many shots as can be asked for, and cuts them to those that are: one program for every number."""
    tasks = model.problem.tasks(_SHOTS, 1)
    low, high = np.asarray(tasks.data["x_range"]).tolist()
    x = np.linspace(low, high, _PLACES)

    @jax.jit
    def draw(seed: Any) -> tuple[Batch, jax.Array]:
        key = jax.random.key(seed)
        # One key gives one curve. From a range that is a single place, its only query point lies just there.
        at = lambda place: tasks.sample(tasks.data | {"x_range": jnp.stack([place, place])}, key).query.y[0, 0]
        return tasks.sample(tasks.data, key).support, jax.vmap(at)(jnp.asarray(x, jnp.float32))

    def sample(seed: int, shots: int) -> TaskResponse:
        support, y = jax.tree.map(np.asarray, draw(jnp.asarray(seed)))
        points = Points(x=support.x[:shots].tolist(), y=support.y[:shots].tolist())
        return TaskResponse(points, curve=Curve(x.tolist(), y.tolist()))

    return sample


CURVES = ServingKind(
    "curve", _parse_support, _parse_query, lambda model, adaptation, rows, answer: with_band(adaptation, answer),
    _shapes, _task_source, _make_sampler, lambda model: sum(model.problem.widths),
    first_queries=(16, 256),  # a few, or the places of a plotted curve
    band_samples=(16,),
)  # fmt: skip
