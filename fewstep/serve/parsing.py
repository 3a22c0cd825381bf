"""From a decoded request to arrays that fit the model; whatever does not fit is refused with the reason."""

from collections.abc import Mapping, Sized
from typing import NamedTuple

from fewstep._errors import FewstepError
from fewstep.problems import Given, Part
from fewstep.serve.errors import invalid, refusal_of
from fewstep.serve.schema import AdaptRequest, PredictRequest, Query, Support
from fewstep.serve.served_model import ServedModel
from fewstep.serve.task import Settings, Task


class PredictTask(NamedTuple):
    """Rows to predict at, and either a task to learn first or the id of an adapter."""

    query: Given
    task: Task | None
    adapter: str | None
    detail: bool


def parse_task(served: ServedModel, request: AdaptRequest | PredictRequest) -> Task:
    """The support set and the settings of a request."""
    if request.support is None:
        raise invalid("no_support", 'The request has neither "adapter" nor "support". Send one of them.')
    limits, model = served.limits, served.model
    steps = model.steps if request.steps is None else request.steps
    samples = model.samples if request.samples is None else request.samples
    check_max("steps", steps, limits.steps)
    check_max("samples", samples, limits.samples)
    support = _read(served, request.support, "support")
    rows, targets = len(support.x), len(support.y)
    if rows != targets:
        raise invalid("unequal_rows", f"The support has {rows} rows of x and {targets} of y. Each x needs its y.")
    ways = _ways(served, support)
    if (work := rows * samples * max(1, steps)) > limits.work:
        fact = f"{rows} examples x {samples} samples x {max(1, steps)} steps are {work}, and the limit is {limits.work}"
        raise invalid("too_much_work", f"{fact}. Ask for fewer of one of them.")
    pace = 1.0 if request.pace is None else request.pace
    return Task(support, Settings(steps, pace, request.seed or 0, samples), request.detail, ways)


def parse_predict(served: ServedModel, request: PredictRequest) -> PredictTask:
    """A request to predict."""
    query = _read(served, request.query, "query")
    if request.adapter is None:
        return PredictTask(query, parse_task(served, request), None, request.detail)
    for name in ("support", "steps", "pace", "seed", "samples"):
        if getattr(request, name) is not None:
            raise invalid("does_not_apply", f'"{name}" does not apply beside "adapter". Leave one of them out.')
    return PredictTask(query, None, request.adapter, request.detail)


def max_values(served: ServedModel) -> int:
    """How many numbers, texts and lists a body within the limits may hold, generously: each number of a row may be a
    list of its own."""
    return 1000 + (served.limits.points + served.limits.queries) * (2 + 3 * served.row_values)


def check_max(name: str, number: int, limit: int) -> None:
    """Refuses more than a limit."""
    if number > limit:
        fix = "Send it in parts" if name == "queries" else "Ask for fewer"
        raise invalid(f"too_many_{name}", f"The request has {number} {name} and the limit is {limit}. {fix}.")


def _read(served: ServedModel, part: Support | Query, name: Part) -> Given:
    """A part of a request as the model's kind reads it, if it has not too many rows: these are counted before anything
    is decoded."""
    fields = {field: value for field in part.__struct_fields__ if (value := getattr(part, field)) is not None}
    count = max(map(_rows, fields.values()), default=0)
    limit = ("points", served.limits.points) if name == "support" else ("queries", served.limits.queries)
    check_max(limit[0], count, limit[1])
    _check_texts(served, fields, name)
    try:
        return served.kind.read(served.problem, fields, name).learned
    except FewstepError as error:
        raise refusal_of(error) from None


def _check_texts(served: ServedModel, fields: Mapping[str, Sized], part: Part) -> None:
    """Refuses texts that are too long before an encoder reads them."""
    limit, rows = served.limits.characters, fields.get("x", ())
    for number, row in enumerate(rows if isinstance(rows, list) else ()):
        if isinstance(row, str) and len(row) > limit:
            fact = f"Text {number + 1} of the {part} has {len(row)} characters and the limit is {limit}."
            raise invalid("text_too_long", f"{fact} Cut it.")


def _rows(field: Sized) -> int:
    """The rows of a list, or of the longest column of a table."""
    return max(map(len, field.values()), default=0) if isinstance(field, dict) else len(field)


def _ways(served: ServedModel, support: Given) -> int | None:
    """The classes of a task, if each task has its own."""
    if served.problem.ways is None:
        return None
    ways = len(support.labels)
    check_max("ways", ways, served.limits.ways)
    try:
        served.model.learner(ways)
    except FewstepError as error:
        raise refusal_of(error) from None
    return ways
