"""From a decoded request to arrays that fit the model; whatever does not fit is refused with the reason."""

from typing import Any, NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.serve._images import read_images
from fewstep.serve._models import Served
from fewstep.serve._refusal import invalid
from fewstep.serve._schema import Adapt, Predict, Query, Support
from fewstep.tables import read as read_frame
from fewstep.tables._outside import NOWHERE, Outside, outside
from fewstep.tables._schema import clamped


class Task(NamedTuple):
    """A task to learn, checked."""

    x: np.ndarray
    y: np.ndarray
    classes: tuple[str, ...] | None
    ways: int | None
    steps: int
    pace: float
    seed: int
    samples: int
    detail: bool
    outside: Outside = NOWHERE


class Question(NamedTuple):
    """Rows to predict at, and a task to learn first or the adapter of one that was learned."""

    x: np.ndarray
    task: Task | None
    adapter: str | None
    detail: bool
    outside: Outside = NOWHERE


def read_task(served: Served, asked: Adapt | Predict) -> Task:
    """The support set and the knobs of a request."""
    support = asked.support
    if support is None:
        raise invalid("no_support", 'The request has neither "adapter" nor "support". Send one of them.')
    limits, steps = served.limits, asked.steps
    count = served.model.inner_steps if steps is None else steps
    samples = served.samples if asked.samples is None else asked.samples
    at_most("steps", count, limits.steps)
    at_most("samples", samples, limits.samples)
    x, y, classes, ways, *far = _SUPPORT[served.kind](served, support)
    if len(x) != len(y):
        raise invalid("unequal_rows", f"The support has {len(x)} rows of x and {len(y)} of y. Each x needs its y.")
    if (work := len(x) * samples * max(1, count)) > limits.work:
        told = (
            f"{len(x)} examples x {samples} samples x {max(1, count)} steps are {work}, and the limit is {limits.work}."
        )
        raise invalid("too_much_work", f"{told} Ask for fewer of one of them.")
    pace = 1.0 if asked.pace is None else asked.pace
    return Task(x, y, classes, ways, count, pace, asked.seed or 0, samples, asked.detail, *far)


def read_question(served: Served, asked: Predict) -> Question:
    """A request to predict, checked."""
    x, far = _read_query(served, asked.query)
    if asked.adapter is None:
        return Question(x, read_task(served, asked), None, asked.detail, far)
    for name in ("support", "steps", "pace", "seed", "samples"):
        if getattr(asked, name) is not None:
            raise invalid("does_not_apply", f'"{name}" does not apply beside "adapter". Leave one of them out.')
    return Question(x, None, asked.adapter, asked.detail, far)


def most_values(served: Served) -> int:
    """How many numbers, texts and lists a body within the limits may hold, generously: each number of a row may be a
    list of its own."""
    problem = served.model.built.problem
    columns = 0 if problem.schema is None else len(problem.schema.names)
    width = int(np.prod(served.image)) if served.image else sum(problem.widths) + columns
    return 1000 + (served.limits.points + served.limits.queries) * (2 + 3 * width)


def _read_query(served: Served, query: Query) -> tuple[np.ndarray, Outside]:
    """Where to predict, as the model's rows."""
    if served.kind == "images":
        return _image_rows(served, query, "query", served.limits.queries), NOWHERE
    if served.kind == "table":
        x, _, far = _encoded(served, query, "query", served.limits.queries)
        return x, far
    _only(query, "query", "x")
    return _rows(query.x, "query.x", served.model.built.problem.widths[0], served.limits.queries), NOWHERE


def _points(served: Served, support: Support) -> Any:
    _only(support, "support", "x", "y")
    inputs, outputs = served.model.built.problem.widths
    x = _rows(support.x, "support.x", inputs, served.limits.points)
    return x, _rows(support.y, "support.y", outputs, served.limits.points), None, None


def _labeled(served: Served, support: Support) -> Any:
    x = _image_rows(served, support, "support", served.limits.points)
    if support.labels is None:
        raise invalid("no_labels", 'The support has no "labels". Send the class of each image.')
    labels = [str(label) for label in support.labels]
    classes = tuple(dict.fromkeys(labels))
    if len(labels) != len(x):
        raise invalid("unequal_rows", f"The support has {len(x)} images and {len(labels)} labels. Send one for each.")
    if len(classes) < 2:
        raise invalid("one_class", f"The support has {len(classes)} class. Telling apart needs at least two.")
    at_most("ways", len(classes), served.limits.ways)
    try:
        served.learner(len(classes))
    except FewstepError as error:
        raise invalid("does_not_fit", str(error)) from None
    number = {name: n for n, name in enumerate(classes)}
    return x, np.asarray([number[label] for label in labels], np.int32), classes, len(classes)


def _table(served: Served, support: Support) -> Any:
    x, y, far = _encoded(served, support, "support", served.limits.points)
    assert served.ensemble is not None
    return x, y, served.ensemble.schema.classes or None, None, far


_SUPPORT = {"curve": _points, "images": _labeled, "table": _table}


def _image_rows(served: Served, given: Support | Query, what: str, most: int) -> np.ndarray:
    _only(given, what, "images", "x", *(("labels",) if what == "support" else ()), either=True)
    if (given.images is None) == (given.x is None):
        raise invalid("no_images", f'The {what} needs either "images" (base64 PNG) or "x" (arrays), and not both.')
    if given.images is not None:
        at_most("points" if what == "support" else "queries", len(given.images), most)
        if not given.images:
            raise invalid("no_rows", f"The {what} has no image. Send at least one.")
        return read_images(given.images, served.image, what, invert=served.model.run.experiment.tasks == "omniglot")
    x = _array(given.x, f"{what}.x", most)
    x = x[..., None] if x.ndim == 3 and served.image[2] == 1 else x
    if x.shape[1:] != served.image:
        raise invalid("wrong_shape", f"{what}.x has images of shape {x.shape[1:]} and the model takes {served.image}.")
    if x.min() < 0 or x.max() > 1:
        raise invalid("out_of_range", f"{what}.x holds values from {x.min():g} to {x.max():g}. Bring them to 0 ... 1.")
    return x


def _encoded(served: Served, given: Support | Query, what: str, most: int) -> tuple[np.ndarray, np.ndarray, Outside]:
    """The rows of a table as the network takes them, in a support their targets, and how far outside they lie."""
    _only(given, what, "columns")
    assert served.ensemble is not None
    schema = served.ensemble.schema
    if not given.columns:
        raise invalid("no_columns", f'The {what} has no "columns". Send {{"{schema.names[0]}": [...], ...}}.')
    at_most("points" if what == "support" else "queries", max(map(len, given.columns.values())), most)
    try:
        frame = read_frame({name: np.asarray(cells, object) for name, cells in given.columns.items()})
        x, y = schema.unbounded(frame), schema.y(frame) if what == "support" else None
        far = outside(schema, frame._replace(name=f"the {what}"), x, y)
        return clamped(x), np.zeros(0) if y is None else y, far
    except FewstepError as error:
        raise invalid("bad_columns", str(error).replace("the table", f"the {what}")) from None


def _rows(values: Any, name: str, width: int, most: int) -> np.ndarray:
    array = _array(values, name, most)
    array = array[:, None] if array.ndim == 1 and width == 1 else array
    if array.ndim != 2 or array.shape[1] != width:
        raise invalid(
            "wrong_shape", f"{name} has rows of shape {array.shape[1:]} and the model takes {width} numbers a row."
        )
    return array


def _array(values: Any, name: str, most: int) -> np.ndarray:
    """Numbers as an array with at least one row and at most so many."""
    what, _, part = name.partition(".")
    if values is None:
        raise invalid(f"no_{part}", f'The {what} has no "{part}". Send one row for each example.')
    if not values:
        raise invalid("no_rows", f"{name} has no rows. Send at least one.")
    at_most("points" if what == "support" else "queries", len(values), most)
    try:
        array = np.array(values, np.float64)
    except ValueError:
        raise invalid("ragged", f"{name} has rows of unequal length. Make them equal.") from None
    if array.size == 0:
        raise invalid("wrong_shape", f"{name} has rows without a number. Each needs at least one.")
    return array


def at_most(what: str, number: int, most: int) -> None:
    """Refuses more than a limit."""
    if number > most:
        hint = "Send it in parts" if what == "queries" else "Ask for fewer"
        raise invalid(f"too_many_{what}", f"The request has {number} {what} and the limit is {most}. {hint}.")


def _only(given: Support | Query, what: str, *names: str, either: bool = False) -> None:
    """Refuses what the model has no use for; of the first two names, both or `either` may be sent."""
    for name in given.__struct_fields__:
        if name not in names and getattr(given, name) is not None:
            first, *rest = (f'"{allowed}"' for allowed in names)
            told = " and ".join([f"{first} or {rest[0]}", *rest[1:]] if either else [first, *rest])
            raise invalid("does_not_apply", f'"{name}" in the {what} does not apply to this model. Send {told}.')
