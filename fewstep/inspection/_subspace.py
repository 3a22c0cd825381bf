"""Propositions 1 and 2 of the MT-net paper as constructions: any subspace, and any metric in it, can be made."""

from typing import NamedTuple

import numpy as np

from fewstep._errors import FewstepError

CERTAIN = 1e4  # a logit whose sigmoid is 1, and whose negative's is 0, to the last bit


class MTNetLayer(NamedTuple):
    """One linear layer of an MT-net, rows as vectors: `y = (x kernel + bias) metric`, with one mask logit per unit."""

    kernel: np.ndarray
    bias: np.ndarray
    metric: np.ndarray
    logits: np.ndarray


def subspace_cell(
    kernel: np.ndarray, bias: np.ndarray, subspace: np.ndarray, gram: np.ndarray | None = None
) -> MTNetLayer:
    r"""The layer that computes `x kernel + bias`, but whose task steps stay in a subspace and are steepest in a metric.

    With V the rows of `subspace`, completed to a basis, and `gram = H' H` the metric in their coordinates: T has the
    rows `H'^-1 V` and then the completion, the logits are large for the first and very negative for the rest. A step
    then moves y by `-lr (|x|^2 + 1) g V' gram^-1 V`, g the loss's gradient at y: in the subspace (proposition 1), and
    the steepest way down in the metric (proposition 2).

    **Arguments:** `kernel` (inputs x n) and `bias` (n) of the layer; `subspace` (d x n), d independent rows that span
    it; `gram` (d x d), symmetric and positive definite, the metric's matrix in these rows; the identity by default.

    **Returns:** an `MTNetLayer`. Raises `FewstepError` when rows are dependent or `gram` is not positive definite.

    **Reference:** Lee & Choi, ICML 2018, appendix B, with its factor -lr and indices corrected.
    """
    kernel, bias, rows = (np.asarray(a, np.float64) for a in (kernel, bias, subspace))
    size, width = rows.shape
    if np.linalg.matrix_rank(rows) < size:
        raise FewstepError(
            f"The {size} rows of the subspace depend on each other. Leave out those that the others span."
        )
    gram = np.eye(size) if gram is None else np.asarray(gram, np.float64)
    if gram.shape != (size, size) or not np.allclose(gram, gram.T) or np.linalg.eigvalsh(gram).min() <= 0:
        raise FewstepError(f"The metric must be a symmetric positive definite {size} x {size} matrix.")
    # The rows of V' past the first d of a full singular value decomposition complete the basis.
    completion = np.linalg.svd(rows)[2][size:]
    root = np.linalg.cholesky(gram).T
    metric = np.concatenate([np.linalg.solve(root.T, rows), completion])
    inverse = np.linalg.inv(metric)
    logits = np.where(np.arange(width) < size, CERTAIN, -CERTAIN)
    return MTNetLayer(kernel @ inverse, bias @ inverse, metric, logits)
