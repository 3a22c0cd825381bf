"""Fitted networks as files: named arrays and a description in JSON in one .npz, read without pickle."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from fewstep._errors import FewstepError
from fewstep.files import saved_file, writing

FORMAT = 1
_ABOUT = "about.json"


def write_network(estimator: Any, arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Writes an estimator and its arrays, in place of an older file; the path with its ending."""
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    classes, kind = _without_objects(estimator.classes_)
    names = getattr(estimator, "feature_names_in_", None)
    about = {
        "format": FORMAT, "class": type(estimator).__name__, "parameters": _parameters(estimator), "labels": kind,
        "temperature": estimator.temperature_, "stopped": list(estimator._fitted.ending),
        "history": [list(record) for record in estimator.history_], "columns": None if names is None else list(names),
    }  # fmt: skip
    content: dict[str, Any] = {_ABOUT: np.frombuffer(json.dumps(about).encode(), np.uint8), "classes": classes}
    content |= {"mean": estimator.mean_, "scale": estimator.scale_, **arrays}
    new = path.with_name(path.name + ".new")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with new.open("wb") as file:
            np.savez(file, **content)
        new.replace(path)
    return path


def read_network(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays of a file."""
    path = saved_file(path)
    if not path.is_file():
        raise FewstepError(f"{path} is not there. Give the file that save() or `fewstep layerwise fit` has written.")
    try:
        with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop(_ABOUT).tobytes())
        readable = about["format"] == FORMAT
        arrays["classes"] = arrays["classes"].astype(about["labels"]) if readable else None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise FewstepError(f"{path} is damaged or not a layer-wise network ({error}). Fit and save it again.") from None
    if not readable:
        raise FewstepError(f"{path} has format {about['format']!r}; this version reads {FORMAT}. Update fewstep.")
    return about, arrays


def name_arrays(number: int, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
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


def _parameters(estimator: Any) -> dict[str, Any]:
    parameters = estimator.get_params()
    if not isinstance(parameters.get("random_state"), Integral | None):
        parameters["random_state"] = None  # a generator is spent; what it gave is in the weights
    parameters["dtype"] = str(parameters["dtype"])
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
