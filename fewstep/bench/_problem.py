"""The problem that every system gets: first weights and tasks as one npz, and the images that ours draw from."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fewstep import data, losses, networks, tasks
from fewstep._episode import Tasks
from fewstep._learner import Loss
from fewstep._network import Network, flatten
from fewstep.bench._workloads import Workload

_CHARACTERS, _DRAWN, _SIZE = 1028, 20, 28
IMAGES = "images.npz"


def network_of(work: Workload) -> Network:
    """The network of a workload."""
    if work.kind == "regression":
        return networks.mlp(1, 1, hidden=work.hidden, std=None)
    return networks.conv4((_SIZE, _SIZE, 1), work.ways, filters=work.filters)


def loss_of(work: Workload) -> Loss:
    """What its inner and outer loop minimize."""
    return losses.squared_error if work.kind == "regression" else losses.cross_entropy


def tasks_of(work: Workload, folder: Path) -> Tasks:
    """Its tasks, drawn inside the step."""
    if work.kind == "regression":
        return tasks.sinusoid(work.shots, work.queries)
    with np.load(folder / IMAGES, allow_pickle=False) as held:
        of = data.make_set(dict(zip(map(str, range(len(held["images"]))), held["images"], strict=True)))
    return tasks.images(of, work.shots, work.queries, ways=work.ways, rotate="episode", invert=True)


def write_images(folder: Path) -> str:
    """The characters that ours are drawn from: Omniglot's, where they are on this machine, else noise of the same
    size, which takes as long; what they are, in words."""
    if data.find("omniglot") is not None:
        images = data.load("omniglot", "train", size=_SIZE).images.reshape(-1, _DRAWN, _SIZE, _SIZE, 1)
        what = "Omniglot's characters"
    else:
        shape = (_CHARACTERS, _DRAWN, _SIZE, _SIZE, 1)
        images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        what = "noise of the size of Omniglot's characters, which are not on this machine"
    np.savez(folder / IMAGES, images=images)
    return what


def write_problem(work: Workload, folder: Path) -> Path:
    """Writes weights and tasks; the same for all systems and methods of a workload's sizes."""
    path = folder / f"{abs(hash(work))}.npz"
    drawn = tasks_of(work, folder)
    keys = jax.random.split(jax.random.key(work.seed), work.tasks)
    support, query = jax.jit(jax.vmap(drawn.sample, (None, 0)))(drawn.data, keys)
    arrays: dict[str, Any] = {
        f"weights/{name}": leaf for name, leaf in flatten(network_of(work).init(jax.random.key(work.seed + 1))).items()
    }
    if work.kind == "images":  # the small last layer that training begins with hides differences in the others
        arrays["weights/dense/kernel"] = 10 * arrays["weights/dense/kernel"]
    arrays |= {"support_x": support.x, "support_y": support.y, "query_x": query.x, "query_y": query.y}
    spec = json.dumps(dataclasses.asdict(work) | {"folder": str(folder)})
    arrays |= {"spec": spec}
    np.savez(path, **{name: np.asarray(leaf) for name, leaf in arrays.items()})  # type: ignore[arg-type]
    return path
