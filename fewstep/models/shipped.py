"""Trained models that come with the package: one npz each, with the experiment and the meta-parameters by path."""

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fewstep._errors import FewstepError, unknown
from fewstep._network import flatten
from fewstep._rule import Meta
from fewstep.experiments.build import Built
from fewstep.experiments.experiment import Experiment

_ABOUT = "about"


def shipped() -> tuple[str, ...]:
    """The names of the models that come with the package."""
    folder = files("fewstep") / "pretrained"
    if not folder.is_dir():
        return ()
    return tuple(sorted(f.name.removesuffix(".npz") for f in folder.iterdir() if f.name.endswith(".npz")))


def write_model(path: Path, experiment: Experiment, meta: Meta, step: int, **about: Any) -> None:
    """Writes meta-parameters of one seed as npz, with their experiment and the step they were reached at."""
    told = {"experiment": json.loads(experiment.to_json()), "step": step, **about}
    arrays = {name: np.asarray(leaf) for name, leaf in flatten(meta).items()}
    np.savez_compressed(path, **{_ABOUT: np.asarray(json.dumps(told)), **arrays})  # type: ignore[arg-type]


def read_about(name: str) -> tuple[Experiment, int]:
    """The experiment of a model that comes with the package, and the step it was trained to."""
    if name not in shipped():
        raise unknown("model of the package", name, shipped())
    with _opened(name) as file:
        told = json.loads(str(file[_ABOUT]))
    return Experiment.from_json(json.dumps(told["experiment"])), int(told["step"])


def read_meta(name: str, built: Built) -> Meta:
    """The meta-parameters of such a model, shaped as its learner makes them."""
    shape = jax.eval_shape(lambda: built.learner.init(jax.random.key(0)))
    with _opened(name) as file:
        arrays = {path: file[path] for path in file.files if path != _ABOUT}
    wanted = {path: leaf.shape for path, leaf in flatten(shape).items()}
    if {path: array.shape for path, array in arrays.items()} != wanted:
        raise FewstepError(f"The model {name} does not fit this version of fewstep. Install it again.")
    return jax.tree.unflatten(jax.tree.structure(shape), [jax.numpy.asarray(arrays[path]) for path in wanted])


def _opened(name: str) -> Any:
    with as_file(files("fewstep") / "pretrained" / f"{name}.npz") as path:
        return np.load(path, allow_pickle=False)
