"""What a rule has learned, layer by layer: the masks' probabilities, T's singular values, the metric they make."""

from typing import NamedTuple

import jax
import numpy as np

from fewstep._network import Layer, flatten
from fewstep._rule import Meta


class LayerReport(NamedTuple):
    """One layer's learned metric and mask. What the rule does not have is `None`.

    `updated` is the expected share of the layer's weights that a task moves, the mean of sigmoid(+logit). `metric` is
    `T diag(m) T'` with T as the paper writes it (columns as vectors) and m the units of probability 1/2 or more;
    `rank` is its rank and `expected_rank` the sum of the probabilities.
    """

    path: str
    width: int
    parameters: int
    probabilities: np.ndarray | None
    updated: float
    singular_values: np.ndarray | None
    condition: float | None
    metric: np.ndarray | None
    rank: int
    expected_rank: float


class Report(NamedTuple):
    """All layers, and the expected updated fraction in three averagings: over logits, over layers, over parameters."""

    layers: list[LayerReport]
    updated_by_logit: float
    updated_by_layer: float
    updated_by_parameter: float


def inspect(layers: tuple[Layer, ...], meta: Meta) -> Report:
    """Looks inside meta-parameters.

    **Arguments:** a network's `layers` and the meta-parameters of one seed.

    **Returns:** a `Report`.

    Example::

        inspect(network.layers, trained.meta).layers[0].probabilities
    """
    shapes = {path: leaf.shape for path, leaf in flatten(meta["weights"]).items()}
    rows = [_layer(layer, meta, shapes) for layer in layers if not layer.skip]
    masked = [row for row in rows if row.probabilities is not None]
    probabilities = [row.probabilities for row in rows if row.probabilities is not None]
    sizes = [row.parameters for row in masked]
    return Report(
        rows,
        float(np.concatenate(probabilities).mean()) if masked else 1.0,
        float(np.mean([row.updated for row in masked])) if masked else 1.0,
        float(np.average([row.updated for row in masked], weights=sizes)) if masked else 1.0,
    )


def _layer(layer: Layer, meta: Meta, shapes: dict[str, tuple[int, ...]]) -> LayerReport:
    matrix = meta.get("metric", {}).get(layer.path)
    units = _units(layer, meta)
    every = _probabilities(layer, meta)
    values = None if matrix is None else np.linalg.svd(np.asarray(matrix, np.float64), compute_uv=False)
    mask = np.ones(layer.width) if units is None else (units >= 0.5).astype(float)
    columns = None if matrix is None else np.asarray(matrix, np.float64).T
    root = (np.eye(layer.width) if columns is None else columns) @ np.diag(mask)
    metric = root @ root.T
    return LayerReport(
        layer.path,
        layer.width,
        sum(int(np.prod(shapes[leaf.path])) for leaf in layer.leaves),
        every,
        1.0 if every is None else float(every.mean()),
        values,
        None if values is None else float(values[0] / values[-1]) if values[-1] > 0 else float("inf"),
        None if matrix is None and units is None else metric,
        int(np.linalg.matrix_rank(metric)),
        float(layer.width if units is None else units.sum()),
    )


def _probabilities(layer: Layer, meta: Meta) -> np.ndarray | None:
    """The probabilities of a layer's masks: one per unit, or one per weight for the full variants; 0 or 1 without
    chance."""
    logits = [meta.get("mask", {}).get(layer.path), *(meta.get("full_mask", {}).get(x.path) for x in layer.leaves)]
    numbers = [meta.get("sparse", {}).get(leaf.path) for leaf in layer.leaves]
    probabilities = [np.ravel(jax.nn.sigmoid(logit)) for logit in logits if logit is not None]
    probabilities += [np.ravel(number) >= 0 for number in numbers if number is not None]
    return np.concatenate(probabilities).astype(np.float64) if probabilities else None


def _units(layer: Layer, meta: Meta) -> np.ndarray | None:
    logits = meta.get("mask", {}).get(layer.path)
    return None if logits is None else np.asarray(jax.nn.sigmoid(logits), np.float64)
