"""Images: tasks of a few classes each, drawn from a data set, a folder or a zip."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from fewstep import data, losses, networks
from fewstep._episode import Batch, Episode, Tasks
from fewstep._errors import FewstepError
from fewstep._network import Network
from fewstep.learners import OF_CLASSES
from fewstep.problems._encoded import ENCODER_HELP, behind
from fewstep.problems._episodes import draw_episodes, write_png
from fewstep.problems._image_fields import read_image_fields
from fewstep.problems._kind import Facts, Fields, Given, Kind, Part, Problem
from fewstep.problems._nearest import nearest_means
from fewstep.problems._options import Options, Value, Values, option
from fewstep.problems._own import LOSS_HELP, NETWORK_HELP, USUAL, find_loss, own_network
from fewstep.problems.encoded_images import ENCODED_IMAGES, write_classes
from fewstep.tasks import IMAGES, all_classes, images, read_query_images, read_support_images

_FOLDER = "folder:"
_EXAMPLES = 1  # images of each class to recognize in a random task


@dataclasses.dataclass(frozen=True)
class Images:
    """The options of tasks made of images."""

    shots: int = option(1, "Images of each class that are learned from.", min=1)
    queries: int = option(5, "Images of each class that a task is evaluated on.", min=1)
    ways: int = option(5, "Classes of a task.", min=2)
    validation_ways: int = option(5, "Classes of a validation task.", min=2)
    image_size: int = option(32, "Height and width that images are resized to.", min=1)
    rotate: Literal["none", "episode", "classes"] = option(
        "none", "Turn images by 90 degrees: a rotation drawn for each class of a task, or four classes made of each."
    )
    shear: float = option(0.0, "Shear images: 1 moves the upper edge by half a height.", changes=True)
    encoder: str = option("", ENCODER_HELP)
    robust: Literal["no", "fgsm", "pgd"] = option(
        "no", "Train on queries that an attack has perturbed within --eps: by one step, or by seven."
    )
    eps: float = option(0.0314, "Radius of that attack; pixels go from 0 to 1, and 0.0314 is 8/255.", min=0.0)
    zoom: float = option(1.0, "Scale what is in the images: below 1 it is smaller.", changes=True)


@dataclasses.dataclass(frozen=True)
class NamedImages(Images):
    """The options of a data set by name."""

    split: str = option("", "Which of the named splits into training, validation and test classes.")


@dataclasses.dataclass(frozen=True)
class FolderImages(Images):
    """The options of a folder or zip with one folder per class."""

    color: Literal["gray", "rgb"] = option("rgb", "Channels of the images.")
    split_seed: int = option(0, "Seed of the split of the classes, 64 : 16 : 20 of a hundred.", min=0)
    skip_bad: bool = option(False, "Leave out images that are damaged, and list them, instead of stopping.")
    classes: dict[str, tuple[str, ...]] = option({}, "The classes of each split, as drawn for the run.", hidden=True)


@dataclasses.dataclass(frozen=True)
class Conv4:
    """The options of the convolutional network and its loss."""

    network: str = option("conv4", NETWORK_HELP)
    loss: str = option(USUAL, LOSS_HELP)
    filters: int = option(64, "Filters of each of the convolutions.", min=1)
    blocks: int = option(4, "Blocks of the network, each halving the image.", min=1)
    down: Literal["stride", "pool"] = option("pool", "How a block halves the image.")
    head: Literal["average", "flatten"] = option("flatten", "What the last layer sees: the mean of the map, or all.")
    norm: Literal["transductive", "support", "layer", "group"] = option(
        "transductive", "Whose statistics normalize: each batch's own, so the query set's too (transductive, as in the "
        "papers); the support set's; or each image's, over all units (layer) or in groups (group).",
    )  # fmt: skip
    norm_scale: bool = option(False, "Learn a scale beside the shift of each normalization.")
    adapt_norm: bool = option(False, "Adapt shift and scale of the normalizations to a task too.")
    init: Literal["he", "paper"] = option(
        "he", "First weights: He initialization with a small last layer, or small as in the MT-net code."
    )


def _is_folder(tasks: str) -> bool:
    return tasks.startswith(_FOLDER)


def _defaults(tasks: str, method: str, given: Values) -> Values:
    own = data.info(tasks)
    usual: dict[str, Value] = {
        "steps": 40_000, "validation_tasks": 200, "outer_lr": 2e-3, "schedule": "cosine",
        "validation_ways": given.get("ways", Images.ways), **own.defaults._asdict(),
    } | ({"split": own.splits[0]} if own.splits else {})  # fmt: skip
    return usual | ({"meta_batch": 2} if method in OF_CLASSES else {})


def _pin(tasks: str, options: Options, begun: Options) -> Options:
    if not _is_folder(tasks) or options.classes:
        return options
    classes = begun.classes if begun is not None else data.pin(tasks, options.split_seed, options.ways)
    return dataclasses.replace(options, classes=classes)


def _problem(tasks: str, options: Options, network: Options) -> Problem:
    invert = data.info(tasks).dark_on_light
    channels = 1 if getattr(options, "color", "rgb") == "gray" else data.info(tasks).channels
    image, load = (options.image_size, options.image_size, channels), partial(_load, tasks, options)
    turned = 4 if options.rotate == "classes" else 1

    def make(shots: int, queries: int, split: str = "train", ways: int | None = None) -> Tasks:
        return images(load(split), shots, queries, ways=ways or options.ways, rotate=options.rotate, invert=invert)

    def count() -> int:
        return turned * data.count(tasks, getattr(options, "split", None) or None, getattr(options, "classes", None))

    norm = getattr(network, "norm", "transductive")
    other = {"transductive": ("support",), "support": ("transductive",)}.get(norm, ())
    return Problem(
        make, partial(_network, network, image, options.ways), find_loss(network.loss, options.ways, classes=True),
        losses.accuracy, "accuracy", losses.error_rate, image, options.ways, classes=True, ways=options.ways,
        norms=(norm, *other), splits=True, digits=4, ends=(0.0, 1.0), n_classes=count,
        all_classes=lambda: all_classes(load("train"), rotate=options.rotate, invert=invert),
        details=(tasks, invert),
    )  # fmt: skip


def _load(tasks: str, options: Options, split: str) -> data.ImageSet:
    """The images of a split; those to be warped in their own size first, where it is known."""
    which: dict[str, Value] = (
        {"color": options.color, "classes": options.classes, "skip_bad": options.skip_bad}
        if _is_folder(tasks) else {"partition": options.split or None}
    )  # fmt: skip
    plain, size = options.shear == 0 and options.zoom == 1, options.image_size
    try:
        images = data.load(tasks, split, size=size if plain else data.info(tasks).own_size or size, **which)
    except data.UnreadableImage as error:
        if not _is_folder(tasks):
            raise
        raise FewstepError(f"{error} To leave out every image that cannot be read: `skip_bad=True`") from None
    return images if plain else data.warp(images, size, shear=options.shear, zoom=options.zoom)


def _network(
    options: Options, image: tuple[int, int, int], ways: int, outputs: int | None = None, norm: str | None = None
) -> Network:
    if options.network != "conv4":
        return own_network(options.network, jnp.zeros((2, *image)), ways if outputs is None else outputs)
    return networks.conv4(
        image, outputs, filters=options.filters, blocks=options.blocks, pool=options.down == "pool",
        average=options.head == "average", norm=norm or options.norm, scale=options.norm_scale,
        adapt_norm=options.adapt_norm, start=options.init,
    )  # fmt: skip


def _read(problem: Problem, source: Path | Fields, part: Part) -> Given:
    _, invert = problem.details
    if isinstance(source, Mapping):
        return read_image_fields(source, part, problem.x, invert=invert)
    if part == "query":
        pictures = read_query_images(source, problem.x, invert)
        return Given(pictures.x, np.zeros(0), rows={"image": pictures.names})
    pictures = read_support_images(source, problem.x, invert)
    labels = tuple(dict.fromkeys(pictures.names))
    return Given(pictures.x, np.asarray([labels.index(name) for name in pictures.names], np.int32), labels)


def _split(tasks: str) -> str:
    """The images to draw from: those on this machine, else those that come with the package; a client's request is not
    a reason to download."""
    if Path(tasks.removeprefix(_FOLDER)).exists() if _is_folder(tasks) else data.find(tasks) is not None:
        return "test"
    if data.info(tasks).sample:
        return "sample"
    fix = "Start the service with --data-dir FOLDER, or fetch them first: fewstep data get NAME."
    raise FewstepError(f"No task can be drawn: the images of the model are not here. {fix}", code="no_data")


def _example(problem: Problem, max_shots: int) -> Callable[[int, int], Facts]:
    """A function that draws an episode of test classes. As many shots as can be asked for are drawn, and cut to those
    that are: one program, and one copy of the images, for every number."""
    tasks, invert = problem.details

    @lru_cache
    def episodes(split: str) -> Callable[[int], Episode]:
        arrays = problem.tasks(1, _EXAMPLES, split).data
        fit = int(np.asarray(arrays["counts"]).min()) - _EXAMPLES
        sample = problem.tasks(max(1, min(fit, max_shots)), _EXAMPLES, split).sample
        draw = jax.jit(lambda arrays, seed: sample(arrays, jax.random.key(seed)))
        return lambda seed: jax.tree.map(np.asarray, draw(arrays, jnp.asarray(seed)))

    def example(seed: int, shots: int) -> Facts:
        support, query = episodes(_split(tasks))(seed)
        available = int((support.y == 0).sum())
        if shots > available:
            fact = f"At most {available} shots can be drawn from the images of the model, and {shots} were asked for"
            raise FewstepError(f"{fact}. Ask for fewer.", code="does_not_fit")
        first = np.arange(len(support.y)) % available < shots  # of each class
        support = jax.tree.map(lambda leaf: leaf[first], support)
        return {"support": _fields(support, invert), "query": _fields(query, invert)}

    return example


def _fields(batch: Batch, invert: bool) -> Facts:
    labels = [chr(ord("A") + n) if n < 26 else str(n + 1) for n in batch.y.tolist()]
    return {"images": [write_png(np.asarray(x), invert=invert) for x in batch.x], "labels": labels}


IMAGES_KIND: Kind = Kind(
    "images", (*IMAGES, _FOLDER), _problem, lambda tasks: FolderImages if _is_folder(tasks) else NamedImages,
    lambda tasks: Conv4, _defaults, _read, write_classes, draw_episodes, pin=_pin, features=True, heavy=True,
    baselines=nearest_means, example=_example, members=("prototypes", "mtnet", "ridge", "meta_sgd"),
    encoded=lambda encoder: behind(ENCODED_IMAGES, encoder) if encoder else IMAGES_KIND,
)  # fmt: skip
