"""A model as one file: arrays and a description in JSON, versioned and checked on load; no pickle."""

from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._errors import FewstepError, unknown
from fewstep._network import flatten
from fewstep._rule import Meta
from fewstep.experiments import VERSION, Built, Experiment, build
from fewstep.files import JSON, read_archive, write_archive
from fewstep.models._calibration import Calibration
from fewstep.models._model import Model

_KIND = "fewstep model"
_FOLDER = "pretrained"


def save_model(
    path: Path, model: Model, *, kind: str = _KIND, about: Mapping[str, JSON] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None, compressed: bool = False,
) -> Path:  # fmt: skip
    """Writes a model, with whatever else there is to know `about` it and more `arrays`, in place of an older file. A
    file of another `kind` than it was saved as is refused on load."""
    calibration = None if model.calibration is None else model.calibration.to_dict()
    description = {
        "experiment": model.experiment.settings(), "step": model.step, "seeds": list(model.metas),
        "calibration": calibration, "more": dict(about or {}),
    }  # fmt: skip
    own = {f"{seed}:{name}": leaf for seed, meta in model.metas.items() for name, leaf in arrays_of(meta).items()}
    more = {f"more:{name}": array for name, array in (arrays or {}).items()}
    return write_archive(path, kind, VERSION, description, {**own, **more}, compressed=compressed)


def load_model(path: Path, *, kind: str = _KIND) -> tuple[Model, dict[str, JSON], dict[str, np.ndarray]]:
    """The model of a file, and whatever else was saved with it."""
    about, arrays = read_archive(path, kind, VERSION, "Train and save it again.")
    built = build(Experiment(**about["experiment"]))
    own = lambda prefix: {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
    metas = {seed: meta_of(built, own(f"{seed}:")) for seed in about["seeds"]}
    calibration = Calibration.from_dict(about["calibration"]) if about["calibration"] else None
    return Model(built, metas, about["step"], calibration), about["more"], own("more:")


def pretrained() -> tuple[str, ...]:
    """The names of the models that come with the package."""
    folder = files("fewstep") / _FOLDER
    if not folder.is_dir():
        return ()
    return tuple(sorted(f.name.removesuffix(".npz") for f in folder.iterdir() if f.name.endswith(".npz")))


def load_pretrained(name: str) -> Model:
    """A model that comes with the package."""
    if name not in pretrained():
        raise unknown("model of the package", name, pretrained())
    with as_file(files("fewstep") / _FOLDER / f"{name}.npz") as path:
        return load_model(path)[0]


def arrays_of(meta: Meta) -> dict[str, np.ndarray]:
    """Meta-parameters by path."""
    return {path: np.asarray(leaf) for path, leaf in flatten(meta).items()}


def meta_of(built: Built, arrays: dict[str, np.ndarray]) -> Meta:
    """Meta-parameters as a learner makes them, of arrays by path."""
    shape = jax.eval_shape(lambda: built.learner.init(jax.random.key(0)))
    wanted = {path: leaf.shape for path, leaf in flatten(shape).items()}
    if {path: array.shape for path, array in arrays.items()} != wanted:
        raise FewstepError("The arrays of the model do not fit this version of fewstep. Train or install it again.")
    return jax.tree.unflatten(jax.tree.structure(shape), [jnp.asarray(arrays[path]) for path in wanted])
