"""Images behind a pretrained encoder: the tasks of `images`, learned on features."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.encoders import Encoder, Item, encode_all, encode_few
from fewstep.problems._encoded import (
    MEMBERS,
    Encoded,
    FeatureNetwork,
    Items,
    describe_encoded,
    encoded_defaults,
    encoded_problem,
    encoder_of,
    pin_center,
)
from fewstep.problems._encoded_tasks import draw_encoded
from fewstep.problems._image_fields import read_image_fields
from fewstep.problems._kind import Answer, Facts, Fields, Given, Kind, Part, Problem, Written
from fewstep.problems._nearest import nearest_features
from fewstep.problems._options import Options, Values, option
from fewstep.tasks import IMAGES, read_query_images, read_support_images

FOLDER = "folder:"
_WARM = (1, 8)  # images at a time
_TEXTS = (".csv", ".tsv", ".txt", ".json", ".jsonl")
_NAMED_PER_CLASS = 150  # of the sets by name, which are large


@dataclasses.dataclass(frozen=True)
class EncodedImages(Encoded):
    """The options of tasks made of encoded images."""

    encoder_size: int = option(128, "Height and width of the images that the encoder sees.", min=32)


@dataclasses.dataclass(frozen=True)
class EncodedNamed(EncodedImages):
    """The options of a data set by name, encoded."""

    split: str = option("", "Which of the named splits into training, validation and test classes.")


@dataclasses.dataclass(frozen=True)
class EncodedFolder(EncodedImages):
    """The options of a folder or zip with one folder per class, encoded."""

    split_seed: int = option(0, "Seed of the split of the classes, 64 : 16 : 20 of a hundred.", min=0)
    skip_bad: bool = option(False, "Leave out images that are damaged, and list them, instead of stopping.")
    classes: dict[str, tuple[str, ...]] = option({}, "The classes of each split, as drawn for the run.", hidden=True)


def _is_folder(tasks: str) -> bool:
    return tasks.startswith(FOLDER)


def _defaults(tasks: str, method: str, given: Values) -> Values:
    splits = data.info(tasks).splits
    own = {} if _is_folder(tasks) else {"per_class": _NAMED_PER_CLASS}
    return encoded_defaults(method, given) | own | ({"split": splits[0]} if splits else {})


def _encoder(options: Options) -> Encoder:
    return encoder_of(options, "image")


def _pixels(options: Options) -> int:
    """The height and width that images are read in: those that the encoder sees."""
    return options.encoder_size or _encoder(options).prepare([np.zeros((1, 1, 3), np.uint8)]).shape[1]


def _items(tasks: str, options: Options) -> Items:
    def load(split: str) -> Mapping[str, Sequence[Item]]:
        which = {"classes": options.classes, "skip_bad": options.skip_bad} if _is_folder(tasks) else {
            "partition": options.split or None}  # fmt: skip
        images = data.load(tasks, split, size=data.info(tasks).own_size or _pixels(options), **which)
        return {name: list(images.of(name)) for name in images.names}

    here = lambda: Path(tasks.removeprefix(FOLDER)).exists() if _is_folder(tasks) else data.find(tasks) is not None
    return Items(load, "image", "images", lambda: tasks != FOLDER and here())


def _problem(tasks: str, options: Options, network: Options) -> Problem:
    return encoded_problem(_encoder(options), _items(tasks, options), options, network)


def _pin(tasks: str, options: Options, begun: Options) -> Options:
    if options.center:
        return options
    if begun is not None:
        return dataclasses.replace(options, **{name: getattr(begun, name) for name in ("center", "classes")
                                               if hasattr(begun, name)})  # fmt: skip
    if _is_folder(tasks):
        options = dataclasses.replace(options, classes=data.pin(tasks, options.split_seed, options.ways))
    return pin_center(_encoder(options), _items(tasks, options), options)


def _read(problem: Problem, source: Path | Fields, part: Part) -> Given:
    options, encoder, *_ = problem.details
    shape = (_pixels(options), _pixels(options), 3)
    pixels = lambda x: list(np.round(x * 255).astype(np.uint8))
    encode = lambda x: encode_all(encoder, pixels(x))
    if isinstance(source, Mapping):
        given = read_image_fields(source, part, shape, invert=False)
        return given._replace(x=encode_few(encoder, pixels(given.x)))
    _refuse_texts(encoder, source)
    if part == "query":
        pictures = read_query_images(source, shape, False)
        return Given(encode(pictures.x), np.zeros(0), rows={"image": pictures.names})
    pictures = read_support_images(source, shape, False)
    labels = tuple(dict.fromkeys(pictures.names))
    return Given(encode(pictures.x), np.asarray([labels.index(name) for name in pictures.names], np.int32), labels)


def _refuse_texts(encoder: Encoder, source: Path) -> None:
    if source.suffix.lower() in _TEXTS and not source.is_dir():
        raise FewstepError(
            f"The encoder {encoder.name} takes images, and {source} is a file of texts. Give images, or name an "
            "encoder of texts, such as minilm-l6."
        )


def write_classes(problem: Problem, query: Given, answer: Answer) -> Written:
    """The class of each row, and the probability of every class."""
    chosen = [query.labels[number] for number in answer.mean.argmax(1)]
    shares = {f"probability of {name}": answer.mean[:, n].tolist() for n, name in enumerate(query.labels)}
    arrays = {"prediction": chosen, "classes": list(query.labels), "probability": answer.mean.tolist()}
    return Written({"prediction": chosen, **shares}, arrays)


def _prepare(problem: Problem) -> None:
    """Compiles the encoder for one image, and for several."""
    size = _pixels(problem.details.options)
    for count in _WARM:
        encode_few(problem.details.encoder, [np.zeros((size, size, 3), np.uint8)] * count)


def _describe(problem: Problem) -> Facts:
    size = _pixels(problem.details.options)
    return describe_encoded(problem) | {"image": [size, size, 3]}


ENCODED_IMAGES = Kind(
    "images", (*IMAGES, FOLDER), _problem, lambda tasks: EncodedFolder if _is_folder(tasks) else EncodedNamed,
    lambda tasks: FeatureNetwork, _defaults, _read, write_classes, draw_encoded, pin=_pin, features=True,
    baselines=nearest_features, prepare=_prepare, describe=_describe, members=MEMBERS,
)  # fmt: skip
