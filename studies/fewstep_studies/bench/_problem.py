"""The problem that every system gets: first weights and tasks as one npz, and the images that fewstep draws from."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fewstep import data, losses, networks, tasks
from fewstep._episode import Tasks
from fewstep._learner import Loss
from fewstep._network import Network, flatten
from fewstep_studies.bench._workloads import Workload

_CHARACTERS, _DRAWINGS, _SIZE = 1028, 20, 28
_IMAGES = "images.npz"


class Family(NamedTuple):
    """What workloads of a kind share: the network, the loss, and the tasks, given the folder of the images (without
    one, tasks of blank images, for their shapes).

    `options` are those of an `Experiment`. `head_scale` multiplies the kernel of the last layer.
    """

    network: Callable[[Workload], Network]
    loss: Loss
    tasks: Callable[[Workload, Path | None], Tasks]
    options: Callable[[Workload], dict[str, Any]]
    head_scale: float = 1.0


def _image_tasks(work: Workload, folder: Path | None) -> Tasks:
    if folder is None:
        images = np.zeros((work.ways, work.shots + work.queries, _SIZE, _SIZE, 1), np.uint8)
    else:
        with np.load(folder / _IMAGES, allow_pickle=False) as arrays:
            images = arrays["images"]
    characters = data.make_set({str(number): drawings for number, drawings in enumerate(images)})
    return tasks.images(characters, work.shots, work.queries, ways=work.ways, rotate="episode", invert=True)


FAMILIES = {
    "regression": Family(
        lambda work: networks.mlp(1, 1, hidden=work.hidden, std=None),
        losses.squared_error,
        lambda work, folder: tasks.sinusoid(work.shots, work.queries),
        lambda work: {"tasks": "sinusoid", "hidden": work.hidden},
    ),
    "images": Family(
        lambda work: networks.conv4((_SIZE, _SIZE, 1), work.ways, filters=work.filters),
        losses.cross_entropy,
        _image_tasks,
        lambda work: {"tasks": "omniglot", "ways": work.ways, "filters": work.filters},
        10.0,  # the small last layer that training begins with hides differences in the others
    ),
}


def write_images(folder: Path) -> str:
    """Writes the characters that fewstep's tasks draw from, and describes them: Omniglot's, where they are on this
    machine, else noise of the same size, which takes as long."""
    if data.find("omniglot") is not None:
        images = data.load("omniglot", "train", size=_SIZE).images.reshape(-1, _DRAWINGS, _SIZE, _SIZE, 1)
        what = "Omniglot's characters"
    else:
        shape = (_CHARACTERS, _DRAWINGS, _SIZE, _SIZE, 1)
        images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        what = "noise of the size of Omniglot's characters, which are not on this machine"
    np.savez(folder / _IMAGES, images=images)
    return what


def write_problem(work: Workload, folder: Path) -> Path:
    """Writes weights and tasks; the same for all systems and methods of a workload's sizes."""
    path, family = folder / f"{abs(hash(work))}.npz", FAMILIES[work.kind]
    source = family.tasks(work, folder)
    keys = jax.random.split(jax.random.key(work.seed), work.tasks)
    support, query = jax.jit(jax.vmap(source.sample, (None, 0)))(source.data, keys)
    network = family.network(work)
    weights = flatten(network.init(jax.random.key(work.seed + 1)))
    head = next(reversed([name for name in weights if name.endswith("kernel")]))
    weights[head] = family.head_scale * weights[head]
    arrays = {f"weights/{name}": leaf for name, leaf in weights.items()}
    arrays |= {"support_x": support.x, "support_y": support.y, "query_x": query.x, "query_y": query.y}
    spec = json.dumps(dataclasses.asdict(work) | {"folder": str(folder)})
    np.savez(path, spec=spec, **{name: np.asarray(leaf) for name, leaf in arrays.items()})  # type: ignore[arg-type]
    return path
