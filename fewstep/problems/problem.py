"""From an experiment to its problem: the tasks, the network that fits them, and what is minimized and judged."""

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from fewstep import data, losses, networks
from fewstep._episode import Tasks
from fewstep._errors import FewstepError, unknown
from fewstep._network import Network
from fewstep.experiments.experiment import Experiment, option
from fewstep.problems.parts import Problem as Problem
from fewstep.problems.parts import checked_loss, own_loss, own_network
from fewstep.problems.tables import table_problem
from fewstep.tasks import IMAGES, TASKS, all_classes, images

_CURVES = ("amplitude", "frequency", "phase", "x_range", "order", "coefficient", "divisor", "conditioned")
_OF_CURVES = (*_CURVES, "hidden", "bias_inputs")
_OF_TABLES = ("task", "x", "y", "categories", "classify", "missing", "outliers", "least_shots")
_OF_NETWORKS = (
    "hidden",
    "bias_inputs",
    "start",
    "filters",
    "blocks",
    "down",
    "head",
    "norm",
    "norm_scale",
    "adapt_norm",
)
_OF_IMAGES = (
    "ways", "validation_ways", "image_size", "color", "skip_bad", "rotate", "split", "split_seed", "filters", "blocks",
    "down", "shear", "zoom", "head", "norm", "norm_scale", "adapt_norm",
)  # fmt: skip
_OWN_SIZES = {"omniglot": 105}
_SIZES = {"omniglot": 28, "cifar-fs": 32, "fc100": 32, "miniimagenet": 84, "tieredimagenet": 84}


def problem(experiment: Experiment) -> Problem:
    """The problem of an experiment. Raises `FewstepError` for unknown names and for options that do not apply."""
    if experiment.network is not None:
        _refuse(experiment, _OF_NETWORKS, "`network` brings its own network")
    if experiment.has_table:
        _refuse(
            experiment, (*_CURVES, *(name for name in _OF_IMAGES if name != "split_seed")), "its tasks are a table's"
        )
        return table_problem(experiment)
    if Path(experiment.tasks).suffix.lower() in (".csv", ".parquet", ".pq"):
        raise FewstepError(f"The tasks are {experiment.tasks!r}. Of a table, write table:{experiment.tasks}.")
    _refuse(experiment, _OF_TABLES, f"{experiment.tasks} is no table")
    if experiment.has_images:
        _refuse(experiment, _OF_CURVES, "its tasks are images")
        return _images(experiment)
    if experiment.tasks not in TASKS:
        raise unknown("tasks", experiment.tasks, [*TASKS, *IMAGES, "folder:PATH", "table:PATH"])
    _refuse(experiment, _OF_IMAGES, f"{experiment.tasks} has no images")
    return _curves(experiment)


def _refuse(experiment: Experiment, names: tuple[str, ...], why: str) -> None:
    for name in names:
        value = getattr(experiment, name)
        if value is not None and value is not False:
            raise FewstepError(f"{option(name)} does not apply: {why}. Leave it out.")


def _curves(experiment: Experiment) -> Problem:
    factory = TASKS[experiment.tasks]
    chosen = {name: getattr(experiment, name) for name in _CURVES}
    given = {name: value for name, value in chosen.items() if value is not None and value is not False}  # 0 is an order
    for name in given:
        if name not in inspect.signature(factory).parameters:
            raise FewstepError(f"{option(name)} does not apply to {experiment.tasks}. Leave it out.")

    def tasks(shots: int, queries: int, split: str = "train", ways: int | None = None) -> Tasks:
        if ways is not None:
            raise FewstepError(f"`ways` does not apply: {experiment.tasks} has no classes. Leave it out.")
        return factory(shots, queries, **given)

    shape = jax.eval_shape(tasks(1, 1).sample, tasks(1, 1).data, jax.eval_shape(lambda: jax.random.key(0))).query
    widths = (shape.x.shape[-1], shape.y.shape[-1])
    if experiment.network is not None:
        network = own_network(experiment.network, jnp.zeros((4, widths[0])), widths[1])
    else:
        network = networks.mlp(
            *widths, hidden=experiment.widths, bias_inputs=experiment.bias_inputs or 0,
            std=None if experiment.start == "he" else 0.01,
        )  # fmt: skip
    text = experiment.loss or "squared_error"
    loss = checked_loss(text, own_loss(text), 1, classes=False)
    return Problem(
        tasks, lambda outputs=None, norm=None: network, loss, losses.squared_error, "mse",
        losses.squared_error, widths=widths,
    )  # fmt: skip


def _images(experiment: Experiment) -> Problem:
    _check_split(experiment)
    plain = experiment.tasks == "omniglot"
    rotate = experiment.rotate or ("episode" if plain else "none")
    size = experiment.image_size or _SIZES.get(experiment.tasks, 32)
    image = (size, size, 1 if plain or experiment.color == "gray" else 3)
    load = partial(_load, experiment, size)

    def tasks(shots: int, queries: int, split: str = "train", ways: int | None = None) -> Tasks:
        ways = ways or experiment.ways or 5
        return images(load(split), shots, queries, ways=ways, rotate=rotate, invert=plain)

    def n_classes() -> int:
        return data.count(experiment.tasks, experiment.split, experiment.classes) * (4 if rotate == "classes" else 1)

    norm = experiment.norm or "transductive"
    other = {"transductive": ("support",), "support": ("transductive",)}.get(norm, ())
    return Problem(
        tasks, partial(_conv4, experiment, image), own_loss(experiment.loss or "cross_entropy"), losses.accuracy,
        "accuracy", losses.error_rate, lambda: all_classes(load("train"), rotate=rotate, invert=plain), n_classes,
        (norm, *other), image,
    )  # fmt: skip


def _load(given: Experiment, size: int, split: str) -> data.ImageSet:
    """The images of a split; those to be warped in their own size first, where it is known."""
    try:
        return _warped(given, size, split)
    except data.UnreadableImage as error:
        if not given.tasks.startswith("folder:"):
            raise
        raise FewstepError(f"{error} To leave out every image that cannot be read: `skip_bad=True`") from None


def _warped(given: Experiment, size: int, split: str) -> data.ImageSet:
    if given.shear is None and given.zoom is None:
        return data.load(given.tasks, split, size=size, **_which(given))
    whole = data.load(given.tasks, split, size=_OWN_SIZES.get(given.tasks, size), **_which(given))
    return data.warp(whole, size, shear=given.shear or 0.0, zoom=1.0 if given.zoom is None else given.zoom)


def _conv4(
    given: Experiment, image: tuple[int, int, int], outputs: int | None = None, norm: str | None = None
) -> Network:
    if given.network is not None:
        return own_network(given.network, jnp.zeros((2, *image)), given.ways or 5 if outputs is None else outputs)
    plain = given.tasks == "omniglot"
    return networks.conv4(
        image,
        outputs,
        filters=given.filters or 64,
        blocks=given.blocks or 4,
        pool=(given.down or ("stride" if plain else "pool")) == "pool",
        average=(given.head or ("average" if plain else "flatten")) == "average",
        norm=norm or given.norm or "transductive",
        scale=given.norm_scale,
        adapt_norm=given.adapt_norm,
        start=given.start or "he",
    )


def _which(experiment: Experiment) -> dict[str, Any]:
    """Which of the ways to read and split its images."""
    if experiment.tasks.startswith("folder:"):
        return {
            "color": experiment.color or "rgb",
            "classes": experiment.classes,
            "skip_bad": experiment.skip_bad,
        }
    return {"named": experiment.split}


def _check_split(experiment: Experiment) -> None:
    """An option that says how to read or split must belong to that kind of images."""
    folder = experiment.tasks.startswith("folder:")
    idle = ("split",) if folder else ("color", "split_seed", "skip_bad")
    why = "a folder's classes are drawn by `split_seed`" if folder else f"{experiment.tasks} fixes it"
    _refuse(experiment, idle, why)
