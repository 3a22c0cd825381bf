"""Images and their classes: PNG or arrays in, probabilities out; random tasks come from images on this machine."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from fewstep import data
from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep.serve.errors import invalid, not_found
from fewstep.serve.images import read_images, write_image
from fewstep.serve.parsing import check_fields, check_max, number_array
from fewstep.serve.schema import Points, Query, Support, TaskResponse
from fewstep.serve.served_model import Sampler, ServedModel, ServingKind, Shapes
from fewstep.serve.task import Examples, Rows, with_band

_SHOTS = 100
_QUERIES = 1  # images of each class to recognize


def _parse_support(model: ServedModel, support: Support) -> Examples:
    x = _pixels(model, support, "support", model.limits.points)
    if support.labels is None:
        raise invalid("no_labels", 'The support has no "labels". Send the class of each image.')
    labels = [str(label) for label in support.labels]
    classes = tuple(dict.fromkeys(labels))
    if len(labels) != len(x):
        raise invalid("unequal_rows", f"The support has {len(x)} images and {len(labels)} labels. Send one for each.")
    if len(classes) < 2:
        raise invalid("one_class", f"The support has {len(classes)} class. Send images of at least two.")
    check_max("ways", len(classes), model.limits.ways)
    try:
        model.learner(len(classes))
    except FewstepError as error:
        raise invalid("does_not_fit", str(error)) from None
    number = {name: n for n, name in enumerate(classes)}
    return Examples(x, np.asarray([number[label] for label in labels], np.int32), classes, len(classes))


def _parse_query(model: ServedModel, query: Query) -> Rows:
    return Rows(_pixels(model, query, "query", model.limits.queries))


def _pixels(model: ServedModel, part: Support | Query, name: str, limit: int) -> np.ndarray:
    check_fields(part, name, "images", "x", *(("labels",) if name == "support" else ()), either=True)
    if (part.images is None) == (part.x is None):
        raise invalid("no_images", f'The {name} needs either "images" (base64 PNG) or "x" (arrays), and not both.')
    shape = model.problem.image
    if part.images is not None:
        check_max("points" if name == "support" else "queries", len(part.images), limit)
        if not part.images:
            raise invalid("no_rows", f"The {name} has no image. Send at least one.")
        return read_images(part.images, shape, name, invert=_inverts(model))
    x = number_array(part.x, f"{name}.x", limit)
    x = x[..., None] if x.ndim == 3 and shape[2] == 1 else x
    if x.shape[1:] != shape:
        raise invalid("wrong_shape", f"{name}.x has images of shape {x.shape[1:]}, but the model takes {shape}.")
    if x.min() < 0 or x.max() > 1:
        raise invalid("out_of_range", f"{name}.x has values from {x.min():g} to {x.max():g}. Scale them to 0 ... 1.")
    return x


def _inverts(model: ServedModel) -> bool:
    """Whether the network sees light ink on dark ground, and people draw dark on light."""
    return data.info(model.experiment.tasks).dark_on_light


def _shapes(model: ServedModel) -> Shapes:
    image = model.problem.image
    ways = model.ways or model.problem.widths[1]
    return Shapes(int(np.prod(image)), ways, image=list(image), max_ways=_max_ways(model))


def _max_ways(model: ServedModel) -> int:
    """The limit; where the last layer has one unit per class, at most as many as in training."""
    limit = model.limits.ways
    try:
        model.learner(limit)
    except FewstepError:
        return min(model.ways or limit, limit)
    return limit


def _task_source(model: ServedModel) -> str:
    """The split to draw from: of the data on this machine, else of those that come with the package; a client's request
    is no reason to download."""
    tasks = model.experiment.tasks
    if Path(tasks.removeprefix("folder:")).exists() if tasks.startswith("folder:") else data.find(tasks) is not None:
        return "test"
    if tasks in data.SAMPLES:
        return "sample"
    fix = "Start the service with --data-dir FOLDER, or fetch them first: fewstep data get NAME."
    raise not_found("no_data", f"No task can be drawn: the images of {model.name} are not here. {fix}")


def _make_sampler(model: ServedModel, split: str) -> Sampler:
    """Draws as many shots as the limit allows, and cuts them to those that are asked for: one program, and one copy of
    the data, for every number."""
    draw, invert = _episodes(model, split), _inverts(model)

    def sample(seed: int, shots: int) -> TaskResponse:
        support, query = draw(seed)
        available = int((support.y == 0).sum())
        if shots > available:
            fact = f"At most {available} shots can be drawn from the images of {model.name}, and {shots} were asked for"
            raise invalid("does_not_fit", f"{fact}. Ask for fewer.")
        first = np.arange(len(support.y)) % available < shots  # of each class
        support = jax.tree.map(lambda leaf: leaf[first], support)
        return TaskResponse(_points(support, invert), query=_points(query, invert))

    return sample


def _episodes(model: ServedModel, split: str) -> Callable[[int], Episode]:
    """Episodes with as many shots as the limit allows and the smallest class has."""
    try:
        arrays = model.problem.tasks(1, _QUERIES, split).data
        fit = int(np.asarray(arrays["counts"]).min()) - _QUERIES
        shots = max(1, min(fit, model.limits.points // (model.ways or 1), _SHOTS))
        sample = model.problem.tasks(shots, _QUERIES, split).sample
    except FewstepError as error:
        raise invalid("does_not_fit", str(error)) from None
    draw = jax.jit(lambda arrays, seed: sample(arrays, jax.random.key(seed)))
    return lambda seed: jax.tree.map(np.asarray, draw(arrays, jnp.asarray(seed)))


def _points(batch: Batch, invert: bool) -> Points:
    images = [write_image(np.asarray(x), invert=invert) for x in batch.x]
    return Points(images=images, labels=[_letter(int(label)) for label in batch.y])


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number + 1)


IMAGES = ServingKind(
    "images", _parse_support, _parse_query, lambda model, adaptation, rows, answer: with_band(adaptation, answer),
    _shapes, _task_source, _make_sampler, lambda model: int(np.prod(model.problem.image)),
    row_buckets=(8, 16, 32, 64, 128, 256),  # a convolution of padding costs as much as that of an image
    first_queries=(8,),
    bounds={"points": 256, "queries": 256, "samples": 16, "work": 16_384},  # each row is many numbers
    sequential=True, decode_aside=True,
)  # fmt: skip
