"""From a decoded request to arrays that fit the model; whatever does not fit is refused with the reason."""

from typing import Any, NamedTuple

import numpy as np

from fewstep.serve.errors import invalid
from fewstep.serve.schema import AdaptRequest, PredictRequest, Query, Support
from fewstep.serve.served_model import ServedModel
from fewstep.serve.task import Rows, Settings, Task


class PredictTask(NamedTuple):
    """Rows to predict at, and either a task to learn first or the id of an adapter."""

    rows: Rows
    task: Task | None
    adapter: str | None
    detail: bool


def parse_task(model: ServedModel, request: AdaptRequest | PredictRequest) -> Task:
    """The support set and the settings of a request."""
    if request.support is None:
        raise invalid("no_support", 'The request has neither "adapter" nor "support". Send one of them.')
    limits = model.limits
    steps = model.source.inner_steps if request.steps is None else request.steps
    samples = model.samples if request.samples is None else request.samples
    check_max("steps", steps, limits.steps)
    check_max("samples", samples, limits.samples)
    examples = model.kind.parse_support(model, request.support)
    rows, targets = len(examples.x), len(examples.y)
    if rows != targets:
        raise invalid("unequal_rows", f"The support has {rows} rows of x and {targets} of y. Each x needs its y.")
    if (work := rows * samples * max(1, steps)) > limits.work:
        fact = f"{rows} examples x {samples} samples x {max(1, steps)} steps are {work}, and the limit is {limits.work}"
        raise invalid("too_much_work", f"{fact}. Ask for fewer of one of them.")
    pace = 1.0 if request.pace is None else request.pace
    return Task(examples, Settings(steps, pace, request.seed or 0, samples), request.detail)


def parse_predict(model: ServedModel, request: PredictRequest) -> PredictTask:
    """A request to predict."""
    rows = model.kind.parse_query(model, request.query)
    if request.adapter is None:
        return PredictTask(rows, parse_task(model, request), None, request.detail)
    for name in ("support", "steps", "pace", "seed", "samples"):
        if getattr(request, name) is not None:
            raise invalid("does_not_apply", f'"{name}" does not apply beside "adapter". Leave one of them out.')
    return PredictTask(rows, None, request.adapter, request.detail)


def max_values(model: ServedModel) -> int:
    """How many numbers, texts and lists a body within the limits may hold, generously: each number of a row may be a
    list of its own."""
    return 1000 + (model.limits.points + model.limits.queries) * (2 + 3 * model.kind.row_values(model))


def number_rows(values: Any, name: str, width: int, limit: int) -> np.ndarray:
    """Rows of so many numbers."""
    array = number_array(values, name, limit)
    array = array[:, None] if array.ndim == 1 and width == 1 else array
    if array.ndim != 2 or array.shape[1] != width:
        fact = f"{name} has rows of shape {array.shape[1:]}, but the model takes {width} numbers per row."
        raise invalid("wrong_shape", fact)
    return array


def number_array(values: Any, name: str, limit: int) -> np.ndarray:
    """Numbers as an array with at least one row and at most as many as the limit."""
    part, _, field = name.partition(".")
    if values is None:
        raise invalid(f"no_{field}", f'The {part} has no "{field}". Send one row for each example.')
    if not values:
        raise invalid("no_rows", f"{name} has no rows. Send at least one.")
    check_max("points" if part == "support" else "queries", len(values), limit)
    try:
        array = np.array(values, np.float64)
    except ValueError:
        raise invalid("ragged", f"{name} has rows of unequal length. Make them equal.") from None
    if array.size == 0:
        raise invalid("wrong_shape", f"{name} has rows without a number. Each needs at least one.")
    return array


def check_max(name: str, number: int, limit: int) -> None:
    """Refuses more than a limit."""
    if number > limit:
        fix = "Send it in parts" if name == "queries" else "Ask for fewer"
        raise invalid(f"too_many_{name}", f"The request has {number} {name} and the limit is {limit}. {fix}.")


def check_fields(part: Support | Query, name: str, *fields: str, either: bool = False) -> None:
    """Refuses fields that the model has no use for; of the first two, both or `either` may be sent."""
    for field in part.__struct_fields__:
        if field not in fields and getattr(part, field) is not None:
            first, *rest = (f'"{allowed}"' for allowed in fields)
            fix = " and ".join([f"{first} or {rest[0]}", *rest[1:]] if either else [first, *rest])
            raise invalid("does_not_apply", f'"{field}" in the {name} does not apply to this model. Send {fix}.')
