"""Fitted estimators as files: arrays and a description in JSON in one .npz, read without pickle."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fewstep._errors import FewstepError
from fewstep.files import saved_file, writing
from fewstep.runs.memory import Fitted

FORMAT = 1
_CLASSES = ("FewShotClassifier", "FewShotRegressor")
_ABOUT = "about.json"
_KEPT = ("n_tasks_", "n_iter_", "n_features_in_", "coverage_", "held_out_tasks_")


def write(estimator: Any, path: Path, learned: Any = None) -> Path:
    """Writes an estimator, and the task that was `learned` with it if there is one, in place of an older file; the path
    with its ending."""
    if estimator.network is not None:
        raise FewstepError(
            "A model with a network of yours cannot be saved as one file: the file would not hold its code. Train it "
            "on the command line with --network FILE.py:FUNCTION, or keep the process."
        )
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    fitted, classes = estimator._fitted, getattr(estimator, "classes_", None)
    names = getattr(estimator, "feature_names_in_", None)
    given = estimator.get_params() | {"hidden": list(estimator.hidden), "random_state": None}
    about = {
        "format": FORMAT, "class": type(estimator).__name__, "parameters": given, "experiment": fitted.experiment,
        "schema": fitted.schema, "calibration": fitted.calibration, "history": fitted.history,
        "columns": None if names is None else list(names), "classes": None if classes is None else _listed(classes),
        "task": None if learned is None else {"inner_steps": learned.inner_steps, "distance": learned._distance},
        **{name: getattr(estimator, name) for name in _KEPT},
    }  # fmt: skip
    held: dict[str, Any] = {_ABOUT: np.frombuffer(json.dumps(about, default=_plain).encode(), np.uint8)}
    held |= {f"{seed}:{name}": array for seed, of in enumerate(fitted.metas) for name, array in of.items()}
    if estimator._known is not None:
        held |= {"known:x": estimator._known[0], "known:y": estimator._known[1]}
    if learned is not None:
        held |= {"task:x": learned._rows[0], "task:y": learned._rows[1]}
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        with new.open("wb") as file:
            np.savez(file, **held)
        new.replace(path)
    return path


def load(path: Path | str) -> Any:
    """The estimator that `save` wrote: one that learns tasks, or one that has learned a task."""
    from fewstep.estimators import _estimators

    path = saved_file(Path(path))
    if not path.is_file():
        raise FewstepError(f"{path} is not there. Give the file that save() has written.")
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop(_ABOUT).tobytes())
        _check_kind(path, about)
        kind = getattr(_estimators, about["class"])
        made = kind(**(about["parameters"] | {"hidden": tuple(about["parameters"]["hidden"])}))
        task = {name: arrays.pop(f"task:{name}") for name in "xy" if f"task:{name}" in arrays}
        made = _filled(made, about, arrays)
        return _learned(made, about["task"], **task) if task else made
    except FewstepError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise FewstepError(f"{path} is damaged or no few-shot estimator ({error}). Fit and save it again.") from None


def _check_kind(path: Path, about: dict[str, Any]) -> None:
    """Raises `FewstepError` unless this version can read the file, and the estimator is one of ours."""
    if about["format"] != FORMAT:
        raise FewstepError(
            f"{path} has the format {about['format']!r}, and this version of fewstep reads {FORMAT}. Load it with the "
            "version that saved it, or fit and save it again."
        )
    if about["class"] not in _CLASSES:
        raise FewstepError(f"{path} holds a {about['class']!r}. Known: {', '.join(_CLASSES)}.")


def _learned(model: Any, told: dict[str, Any], x: np.ndarray, y: np.ndarray) -> Any:
    """The estimator that has learned the task of some rows."""
    from fewstep.estimators._adapted import AdaptedClassifier, AdaptedRegressor

    kind = AdaptedClassifier if hasattr(model, "classes_") else AdaptedRegressor
    return kind(model, inner_steps=told["inner_steps"]).of_rows(x, y, told.get("distance", 0.0))


def _filled(made: Any, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    known = {name.partition(":")[2]: arrays.pop(name) for name in ("known:x", "known:y") if name in arrays}
    seeds = sorted({int(name.partition(":")[0]) for name in arrays})
    metas = tuple(
        {name.partition(":")[2]: array for name, array in arrays.items() if int(name.partition(":")[0]) == seed}
        for seed in seeds
    )
    history = tuple((int(step), float(score)) for step, score in about["history"])
    made._fitted = Fitted(about["experiment"], about["schema"], metas, about["calibration"], history)
    made._known = (known["x"], known["y"]) if known else None
    made.history_ = list(history)
    for name in _KEPT:
        setattr(made, name, tuple(about[name]) if isinstance(about[name], list) else about[name])
    if about["columns"] is not None:
        made.feature_names_in_ = np.asarray(about["columns"], object)
    if about["classes"] is not None:
        made.classes_ = np.asarray(about["classes"])
    return made


def _listed(classes: np.ndarray) -> list[Any]:
    if not all(isinstance(label, str | int | float) for label in classes.tolist()):
        raise FewstepError(f"Labels such as {classes[0]!r} cannot be saved. Fit with numbers or strings.")
    return classes.tolist()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)  # such as a date that names a task
