"""A classifier of sentences and photographs: a few examples of each class, behind a pretrained encoder."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.encoders import Item, encode_all
from fewstep.estimators import _input, _save
from fewstep.estimators._input import TableLike
from fewstep.files import JSON
from fewstep.models import Adaptation, Model, Rejection, adapt, fit_items, load_model, save_model, untrained
from fewstep.problems import Given

KIND = "encoded classifier"
_ENOUGH = 20  # classes that make a training worth its time: fifteen to train on and five to validate by
_FEWEST = 6  # classes that a training can be made of at all
_Own = TypeVar("_Own", bound="EncodedClassifier")  # the run-time check of types cannot take `Self`


class EncodedClassifier(ClassifierMixin, BaseEstimator):
    """Learns to distinguish classes of sentences or photographs from a few examples of each.

    `fit(X, y)` is ready at once: with few classes an example gets the class whose mean features are nearest. With 20
    classes or more, each with more than `shots` examples, a metric of the features is trained on tasks that draw from
    these classes. `adapt(X, y)` learns other classes from a few examples, with the same metric.

    **Arguments:** `encoder`, `minilm-l6` for sentences, `efficientnet-lite0` for photographs, or any other name that
    `find_encoder` takes; `method`, `metric` or any other that learns on features, for the training; `shots`, the
    examples of each class that its tasks learn from; its `steps`; `train`, whether to: `None` where there are classes
    enough; `size`, the pixels of photographs that the encoder sees.

    Example::

        model = EncodedClassifier("minilm-l6").fit(["will it rain", "wake me at six"], ["weather", "alarm"])
        model.predict(["is it sunny outside"])
    """

    def __init__(
        self, encoder: str = "minilm-l6", *, method: str = "metric", shots: int = 1, steps: int | None = None,
        train: bool | None = None, size: int | None = None, random_state: TableLike = 0,
    ):  # fmt: skip
        self.encoder = encoder
        self.method = method
        self.shots = shots
        self.steps = steps
        self.train = train
        self.size = size
        self.random_state = random_state

    def fit(self: _Own, X: TableLike, y: TableLike) -> _Own:
        """Learns the classes of these examples, after a training on them where there are enough.

        **Arguments:** `X` texts, or images: paths of files, or arrays of bytes (height, width, channels); `y` their
        labels.
        """
        self.model_ = untrained(self.encoder, **self._options())
        items, labels = self._items(X), _input.labels_of(y, len(X))
        classes: dict[str, list[Item]] = {}
        for item, label in zip(items, labels.tolist(), strict=True):
            classes.setdefault(str(label), []).append(item)
        usable = {name: own for name, own in classes.items() if len(own) > self.shots}
        if self.train if self.train is not None else len(usable) >= _ENOUGH:
            self.model_ = self._trained(usable)
        self.n_iter_ = self.model_.step
        return self._learn(items, labels)

    def adapt(self: _Own, X: TableLike, y: TableLike) -> _Own:
        """A classifier of other classes, learned from a few examples of each; this one stays as it is."""
        check_is_fitted(self)
        other = copy.copy(self)
        return other._learn(self._items(X), _input.labels_of(y, len(X)))

    def predict(self, X: TableLike) -> np.ndarray:
        """The class of each."""
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """The probability of each class, in the order of `classes_`."""
        return self._learned().answer(self._encode(self._items(X))).mean

    def unknown(self, X: TableLike) -> np.ndarray:
        """Which fit none of the classes. It takes a training: its threshold is calibrated on validation classes."""
        return self._learned().unknown(self._encode(self._items(X)))

    def save(self, path: Path | str) -> Path:
        """Writes the classifier into one file, without pickle; `fewstep.estimators.load` reads it."""
        check_is_fitted(self)
        rejection = self.model_.rejection
        about: dict[str, JSON] = {
            "parameters": self.get_params() | {"random_state": None}, "classes": _save.listed(self.classes_),
            "rejection": rejection.to_dict() if rejection else None,
        }  # fmt: skip
        return save_model(Path(path), self.model_, kind=KIND, about=about, arrays={"x": self._x, "y": self._y})

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, as joblib and copies use it: a model's functions cannot be pickled, what they are made of can."""
        state: dict[str, Any] = super().__getstate__()
        if "model_" not in state:
            return state
        return state | {"model_": (_save.parts_of(state["model_"]), state["model_"].rejection)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "model_" in state:
            parts, rejection = state["model_"]
            self.model_ = with_rejection(_save.model_of(parts, None), rejection)

    def _learn(self: _Own, items: list[Item], labels: np.ndarray) -> _Own:
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise FewstepError(f"y has only one class, {classes.tolist()[0]!r}: there is nothing to distinguish.")
        return self.of_rows(self._encode(items), codes.astype(np.int32), classes)

    def of_rows(self: _Own, x: np.ndarray, y: np.ndarray, classes: np.ndarray) -> _Own:
        """The classifier after it has learned encoded rows, of the classes by number."""
        self._x, self._y, self.classes_ = x, y, classes
        return self

    def _learned(self) -> Adaptation:
        check_is_fitted(self)
        return adapt(self.model_, Given(self._x, self._y, tuple(map(str, self.classes_.tolist()))))

    def _trained(self, classes: Mapping[str, list[Item]]) -> Model:
        if len(classes) < _FEWEST:
            raise FewstepError(
                f"{len(classes)} classes have more than {self.shots} examples, and a training takes {_FEWEST}. Leave "
                "`train` out: the nearest class mean needs no training."
            )
        options = self._options() | ({"steps": self.steps} if self.steps is not None else {})
        seed = _input.seed_of(self.random_state)
        return fit_items(self.encoder, classes, method=self.method, seed=seed, shots=self.shots, options=options)

    def _options(self) -> dict[str, int]:
        return {} if self.size is None else {"encoder_size": self.size}

    def _items(self, X: TableLike) -> list[Item]:
        """X as an encoder takes it."""
        details = self.model_.problem.details
        if isinstance(X, str) or not hasattr(X, "__len__"):
            raise FewstepError(f"X is a {type(X).__name__}. Give a list of {details.items.what}, one for each label.")
        entries = list(X)
        if not entries:
            raise FewstepError(f"X has no {details.items.what}. Give at least one.")
        if details.items.modality == "text":
            return [str(entry) if isinstance(entry, np.str_) else entry for entry in entries]
        size = self.model_.kind.describe(self.model_.problem)["image"][0]
        return [_photograph(entry, size) for entry in entries]

    def _encode(self, items: list[Item]) -> np.ndarray:
        return encode_all(self.model_.problem.details.encoder, items)


def _photograph(entry: TableLike, size: int) -> np.ndarray:
    """An image of bytes: as it is, or that of a file."""
    if isinstance(entry, str | Path):
        return data.decode_file(Path(entry).expanduser(), size, "RGB")
    pixels = np.asarray(entry)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def with_rejection(model: Model, rejection: Rejection | None) -> Model:
    """The model with its threshold for what fits no class."""
    return Model(model.built, model.metas, model.step, rejection=rejection)


def load(path: Path) -> EncodedClassifier:
    """What `save` wrote."""
    model, about, arrays = load_model(path, kind=KIND)
    classifier = EncodedClassifier(**about["parameters"])
    rejection = Rejection.from_dict(about["rejection"]) if about["rejection"] else None
    classifier.model_, classifier.n_iter_ = with_rejection(model, rejection), model.step
    return classifier.of_rows(arrays["x"], arrays["y"], np.asarray(about["classes"]))
