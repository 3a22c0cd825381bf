"""Fitted networks as files: named arrays and a description in JSON in one .npz, read without pickle."""

from collections.abc import Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from fewstep._errors import FewstepError
from fewstep._kernels import AnyArray
from fewstep.files import JSON, read_archive, write_archive

_KIND, _VERSION = "layer-wise network", 2


def write_network(estimator: Any, arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Writes an estimator and its arrays, in place of an older file; the path with its ending."""
    classes, labels = _without_objects(estimator.classes_)
    names = getattr(estimator, "feature_names_in_", None)
    about = {
        "class": type(estimator).__name__, "parameters": _parameters(estimator), "labels": labels,
        "temperature": estimator.temperature_, "stopped": list(estimator._fitted.ending),
        "history": [list(record) for record in estimator.history_], "columns": None if names is None else list(names),
    }  # fmt: skip
    every = {"classes": classes, "mean": estimator.mean_, "scale": estimator.scale_, **arrays}
    return write_archive(path, _KIND, _VERSION, about, every)


def read_network(path: Path) -> tuple[dict[str, JSON], dict[str, np.ndarray]]:
    """The description and the arrays of a file."""
    about, arrays = read_archive(path, _KIND, _VERSION, "Fit and save it again.")
    return about, arrays | {"classes": arrays["classes"].astype(about["labels"])}


def name_arrays(number: int, arrays: Mapping[str, AnyArray]) -> dict[str, np.ndarray]:
    """Arrays of one layer, named by its number."""
    return {f"layer.{number}.{name}": np.asarray(array) for name, array in arrays.items()}


def split_arrays(arrays: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """The arrays of each layer in turn, by their plain names."""
    number = 0
    while layer := {name.split(".")[2]: array for name, array in arrays.items() if name.startswith(f"layer.{number}.")}:
        yield layer
        number += 1


def _without_objects(classes: np.ndarray) -> tuple[np.ndarray, str]:
    """Classes in a type that needs no pickle, and their own type."""
    if classes.dtype != object:
        return classes, classes.dtype.str
    if not all(isinstance(label, str) for label in classes):
        raise FewstepError(f"Labels such as {classes[0]!r} cannot be saved. Fit with numbers or strings.")
    return classes.astype(str), "O"


def _parameters(estimator: BaseEstimator) -> dict[str, object]:
    parameters = estimator.get_params()
    if not isinstance(parameters.get("random_state"), Integral | None):
        parameters["random_state"] = None  # a generator is spent; what it gave is in the weights
    parameters["dtype"] = str(parameters["dtype"])
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
