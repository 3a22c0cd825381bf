"""Text: tasks of a few classes of texts each, learned on the features of a pretrained encoder."""

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.encoders import Encoder, encode_all, encode_few
from fewstep.problems._encoded import (
    MEMBERS,
    Encoded,
    FeatureNetwork,
    Items,
    behind,
    describe_encoded,
    encoded_defaults,
    encoded_problem,
    encoder_of,
    pin_center,
)
from fewstep.problems._encoded_tasks import draw_encoded
from fewstep.problems._fields import check_fields
from fewstep.problems._kind import Fields, Given, Kind, Part, Problem
from fewstep.problems._nearest import nearest_features
from fewstep.problems._options import Options, Value, Values, option
from fewstep.problems._sentences import text_example
from fewstep.problems.encoded_images import write_classes

_PREFIX = "text:"
_ENCODER = "minilm-l6"
_WARM = (1, 8)  # texts at a time


@dataclasses.dataclass(frozen=True)
class TextOptions(Encoded):
    """The options of tasks made of texts."""

    text: str = option("", "Column of the texts (default: text or sentence).")
    label: str = option("", "Column of the labels (default: label, class or intent).")
    split: str = option(
        "", "Which classes are for training, validation and test: a JSON file of three lists, or a folder of them."
    )
    split_seed: int = option(0, "Seed of the split of the classes, 64 : 16 : 20 of a hundred.", min=0)
    classes: dict[str, tuple[str, ...]] = option({}, "The classes of each split, as drawn for the run.", hidden=True)


def _defaults(tasks: str, method: str, given: Values) -> Values:
    return encoded_defaults(method, given) | {"encoder": _ENCODER}


def _encoder(options: Options) -> Encoder:
    return encoder_of(options, "text")


@lru_cache(maxsize=2)
def _read_all(path: Path, text: str, label: str, changed: int) -> dict[str, list[str]]:
    return data.read_texts(path, text, label).by_class()


def _path(tasks: str) -> Path:
    return Path(tasks.removeprefix(_PREFIX)).expanduser()


def _classes(tasks: str, options: Options) -> dict[str, list[str]]:
    path = _path(tasks)
    return _read_all(path, options.text, options.label, path.stat().st_mtime_ns if path.exists() else 0)


def _items(tasks: str, options: Options) -> Items:
    def load(split: str) -> Mapping[str, list[str]]:
        texts = _classes(tasks, options)
        classes = options.classes or data.text_classes(tuple(texts), options.split, options.split_seed, options.ways)
        if missing := [name for name in classes[split] if name not in texts]:
            raise FewstepError(f"{tasks} has no text of the class {missing[0]!r} any more. Put it back, or train anew.")
        return {name: texts[name] for name in classes[split]}

    return Items(load, "text", "texts", lambda: tasks != _PREFIX and _path(tasks).exists())


def _problem(tasks: str, options: Options, network: Options) -> Problem:
    return encoded_problem(_encoder(options), _items(tasks, options), options, network)


def _pin(tasks: str, options: Options, begun: Options) -> Options:
    if options.classes:
        return options
    if begun is not None:
        return dataclasses.replace(options, classes=begun.classes, center=begun.center)
    names = tuple(_classes(tasks, options))
    options = dataclasses.replace(
        options, classes=data.text_classes(names, options.split, options.split_seed, options.ways)
    )
    return pin_center(_encoder(options), _items(tasks, options), options)


def _read(problem: Problem, source: Path | Fields, part: Part) -> Given:
    options, encoder, *_ = problem.details
    if isinstance(source, Mapping):
        texts = _fields(source, part)
        x = encode_few(encoder, texts.texts)
    else:
        texts = data.read_texts(source, options.text, options.label, labeled=part == "support")
        x = encode_all(encoder, texts.texts)
    if part == "query":
        return Given(x, np.zeros(0), rows={"text": texts.texts})
    labels = tuple(dict.fromkeys(texts.labels))
    if len(labels) < 2:
        raise FewstepError(f"The support has one class, {labels[0]!r}. Give texts of at least two.", code="one_class")
    return Given(x, np.asarray([labels.index(label) for label in texts.labels], np.int32), labels)


def _fields(fields: Fields, part: Part) -> data.Texts:
    """The texts of a request."""
    check_fields(fields, part, "x", *(("labels",) if part == "support" else ()))
    names: dict[str, list[Value]] = {name: list(fields.get(name) or ()) for name in ("x", "labels")}
    texts, labels = ([str(value) for value in names[name]] for name in ("x", "labels"))
    if not all(isinstance(text, str) for text in names["x"]):
        raise FewstepError(f'"x" of the {part} has numbers. Send a list of texts.', code="not_texts")
    if not texts or not all(text.strip() for text in texts):
        raise FewstepError(f'"x" of the {part} has no texts, or an empty one. Send at least one text.', code="no_rows")
    if part == "support" and len(labels) != len(texts):
        fact = f"The support has {len(texts)} texts and {len(labels)} labels."
        raise FewstepError(f"{fact} Send one for each.", code="unequal_rows")
    return data.Texts(texts, labels)


def _prepare(problem: Problem) -> None:
    """Compiles the encoder for one short text, and for several."""
    for count in _WARM:
        encode_few(problem.details.encoder, ["a text"] * count)


TEXT: Kind = Kind(
    "text", (_PREFIX,), _problem, lambda tasks: TextOptions, lambda tasks: FeatureNetwork, _defaults, _read,
    write_classes, draw_encoded, pin=_pin, features=True, baselines=nearest_features, example=text_example,
    prepare=_prepare, describe=describe_encoded, members=MEMBERS,
    encoded=lambda encoder: behind(TEXT, encoder or _ENCODER),
)  # fmt: skip
