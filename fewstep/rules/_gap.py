r"""GAP (geometry-adaptive preconditioner): learned scales for the singular values of the gradient.

    G = U diag(s) V'  of a layer's gradient, inputs by outputs
    G <- U diag(softplus(m)) U' G = U diag(softplus(m) s) V'

The scales start at 1, and stay above 0. The singular vectors belong to the task and the step; the scales, one per
singular value from the largest to the smallest, to all tasks. Biases are left as they are.

The derivative here is that of the whole map. The authors take U for a constant: `detach=True`.

Reference: Kang, Hwang, Eo, Kim & Rhee, Meta-Learning with a Geometry-Adaptive Preconditioner, CVPR 2023.
"""

import math
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from fewstep._network import Leaf
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._layers import moving
from fewstep.rules._metric import on_matrix
from fewstep.rules._options import LayerNames

_SHARPNESS = 2.0  # of softplus, as in the authors' code
_ONE = math.log(math.expm1(_SHARPNESS)) / _SHARPNESS  # where softplus is 1
_APART = 1e3  # units of rounding between two singular values that count as different

Matrix = Float[Array, "rows columns"]


def gap(
    layers: LayerNames = None, *, detach: Annotated[bool, "Take the singular vectors for constants"] = False
) -> Rule:  # fmt: skip
    r"""Learned scales for the singular values of every kernel's gradient, before the optimizer.

    **Arguments:** `layers`, paths or numbers of those whose gradients are scaled, all that can by default; `detach`,
    whether the outer gradient takes the singular vectors for constants. It then is not the derivative of the steps
    that were taken: a few percent off after three of them.

    **Returns:** a link for `chain`: `chain(gap(), sgd(0.01))`.

    **Reference:** Kang et al., Meta-Learning with a Geometry-Adaptive Preconditioner, CVPR 2023.
    """
    names = layers

    def kernels(layers: Layers, fast: Flat) -> list[Leaf]:
        leaves = [leaf for layer in moving(layers, names, fast, "preconditioner") for leaf in layer.leaves]
        return [leaf for leaf in leaves if leaf.path in fast and fast[leaf.path].ndim > len(leaf.axes)]

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        chosen = kernels(layers, fast)
        return {"gap": {leaf.path: _scales(fast[leaf.path], leaf) for leaf in chosen}}

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        def scaled(gradients: Flat, params: Flat | None = None) -> Flat:
            return gradients | {
                leaf.path: on_matrix(
                    partial(_scaled, meta["gap"][leaf.path], detach=detach), gradients[leaf.path], leaf.axes
                )
                for leaf in kernels(layers, gradients)
            }

        return optax.stateless(scaled)

    return link("gap", Stage.PRECONDITION, init=init, update=update)


def _scales(array: Array, leaf: Leaf) -> Float[Array, " values"]:
    columns = math.prod(array.shape[axis] for axis in leaf.axes)
    return jnp.full(min(columns, array.size // columns), _ONE, jnp.promote_types(array.dtype, jnp.float32))


def _scaled(numbers: Float[Array, " values"], gradient: Matrix, *, detach: bool) -> Matrix:
    scales = jax.nn.softplus(_SHARPNESS * numbers) / _SHARPNESS
    precise = gradient.astype(numbers.dtype)
    if not detach:
        return rescale(precise, scales).astype(gradient.dtype)
    left = jnp.linalg.svd(jax.lax.stop_gradient(precise), full_matrices=False)[0]
    return ((left * scales[None]) @ (left.T @ precise)).astype(gradient.dtype)


@jax.custom_jvp
def rescale(matrix: Matrix, scales: Float[Array, " values"]) -> Matrix:
    """The matrix with its singular values times the scales, from the largest on."""
    left, values, right = jnp.linalg.svd(matrix, full_matrices=False)
    return (left * (scales * values)[None]) @ right


@rescale.defjvp
def _rescale_derivative(
    primals: tuple[Matrix, Array], tangents: tuple[Matrix, Array]
) -> tuple[Matrix, Matrix]:  # fmt: skip
    """That of an SVD divides by the differences of singular values; that of the product has a limit at most of them.
    Where two are equal, those of a gradient's null space above all, both are taken to have their mean scale."""
    (matrix, scales), (change, of_scales) = primals, tangents
    left, values, right = jnp.linalg.svd(matrix, full_matrices=False)
    scaled, own = scales * values, left.T @ change @ right.T
    smallest = _APART * jnp.finfo(values.dtype).eps * values[0]
    mean = (scales[:, None] + scales[None]) / 2
    ratio = lambda over, under: jnp.where(jnp.abs(under) > smallest, over / jnp.where(under == 0, 1, under), mean)
    even = ratio(scaled[:, None] - scaled[None], values[:, None] - values[None]) * (own + own.T) / 2
    odd = ratio(scaled[:, None] + scaled[None], values[:, None] + values[None]) * (own - own.T) / 2
    diagonal = jnp.diag(scales * jnp.diagonal(own) + of_scales * values)
    inside = jnp.where(jnp.eye(len(values), dtype=bool), diagonal, even + odd)
    beside_left = ((change @ right.T - left @ own) * scales[None]) @ right
    beside_right = (left * scales[None]) @ (left.T @ change - own @ right)
    return (left * scaled[None]) @ right, left @ inside @ right + beside_left + beside_right
