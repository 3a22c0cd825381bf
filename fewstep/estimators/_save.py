"""Fitted estimators as files: a saved model with what the estimator knows beside it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._errors import FewstepError
from fewstep.experiments import Experiment, build
from fewstep.files import JSON, archive_kind
from fewstep.models import Calibration, Model, load_model, save_model

_KIND = "few-shot estimator"
_CLASSES = ("FewShotClassifier", "FewShotRegressor")
_FACTS = ("n_tasks_", "n_iter_", "n_features_in_", "coverage_", "held_out_tasks_")


def write(estimator: Any, path: Path, learned: Any = None) -> Path:
    """Writes an estimator, and the task that was `learned` with it if there is one, in place of an older file; the path
    with its ending."""
    if estimator.network is not None:
        raise FewstepError(
            "A model with a network of yours cannot be saved as one file: the file would not hold its code. Train it "
            "on the command line with --network FILE.py:FUNCTION, or keep the process."
        )
    classes, names = getattr(estimator, "classes_", None), getattr(estimator, "feature_names_in_", None)
    about = {
        "class": type(estimator).__name__,
        "parameters": estimator.get_params() | _listed_parameters(estimator),
        "history": estimator.history_, "columns": None if names is None else list(names),
        "classes": None if classes is None else listed(classes),
        "task": None if learned is None else {"inner_steps": learned.inner_steps, "distance": learned._distance},
        **{name: _plain(getattr(estimator, name)) for name in _FACTS},
    }  # fmt: skip
    if not isinstance(about["parameters"]["validation"], float):
        about["parameters"]["validation"] = _plain(tuple(about["parameters"]["validation"]))
    arrays: dict[str, np.ndarray] = {}
    if estimator._only_task is not None:
        arrays |= {"known_x": estimator._only_task[0], "known_y": estimator._only_task[1]}
    if learned is not None:
        arrays |= {"task_x": learned._rows[0], "task_y": learned._rows[1]}
    return save_model(path, estimator.model_, kind=_KIND, about=about, arrays=arrays)


def load(path: Path | str) -> Any:
    """The estimator that `save` wrote: one that learns tasks, or one that has learned a task."""
    from fewstep.estimators import _encoded, _estimators
    from fewstep.estimators._adapted import AdaptedClassifier, AdaptedRegressor

    if archive_kind(Path(path)) == _encoded.KIND:
        return _encoded.load(Path(path))
    model, about, arrays = load_model(Path(path), kind=_KIND)
    if about["class"] not in _CLASSES:
        raise FewstepError(f"{path} holds a {about['class']!r}. Known: {', '.join(_CLASSES)}.")
    parameters = about["parameters"] | {"hidden": tuple(about["parameters"]["hidden"])}
    parameters |= {"dates": tuple(parameters.get("dates", ("days",)))}
    estimator = getattr(_estimators, about["class"])(**parameters)
    estimator.model_ = model
    estimator._only_task = (arrays["known_x"], arrays["known_y"]) if "known_x" in arrays else None
    estimator.history_ = [(int(step), float(score)) for step, score in about["history"]]
    for name in _FACTS:
        setattr(estimator, name, tuple(about[name]) if isinstance(about[name], list) else about[name])
    if about["columns"] is not None:
        estimator.feature_names_in_ = np.asarray(about["columns"], object)
    if about["classes"] is not None:
        estimator.classes_ = np.asarray(about["classes"])
    if about["task"] is None:
        return estimator
    kind = AdaptedClassifier if hasattr(estimator, "classes_") else AdaptedRegressor
    learned = kind(estimator, inner_steps=about["task"]["inner_steps"])
    return learned.of_rows(arrays["task_x"], arrays["task_y"], about["task"]["distance"])


class ModelParts(NamedTuple):
    """What a model is made of, as plain values."""

    experiment: dict[str, Any]
    metas: dict[int, Any]
    step: int
    calibration: Calibration | None


def parts_of(model: Model) -> ModelParts:
    """The parts of a model."""
    metas = jax.tree.map(np.asarray, model.metas)
    return ModelParts(model.experiment.settings(), metas, model.step, model.calibration)


def model_of(parts: ModelParts, network: Callable[..., Any] | None) -> Model:
    """The model of its parts, with the user's own `network` if it had one."""
    built = build(Experiment(**parts.experiment), network=network)
    return Model(built, jax.tree.map(jnp.asarray, parts.metas), parts.step, parts.calibration)


def _listed_parameters(estimator: Any) -> dict[str, JSON]:
    return {"hidden": list(estimator.hidden), "dates": list(estimator.dates), "random_state": None}


def listed(classes: np.ndarray) -> list[JSON]:
    if not all(isinstance(label, str | int | float) for label in classes.tolist()):
        raise FewstepError(f"Labels such as {classes[0]!r} cannot be saved. Fit with numbers or strings.")
    return classes.tolist()


def _plain(value: object) -> JSON:
    """A value as JSON has it; what it has not, such as a date that names a task, as text."""
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool | None) else str(value)
