"""A convolution that is fast where every task has kernels of its own.

Under `vmap` a convolution with one kernel per task becomes a grouped convolution, which is slow on a CPU. There we lay
the patches of the image out as rows and multiply them with the kernel as a matrix; accelerators get the convolution.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_IMAGES = jax.lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))  # rows height width channels
Padding = str | Sequence[tuple[int, int]]


def convolve(
    x: Float[Array, "rows height width channels"],
    kernel: Float[Array, "high wide channels units"],
    *,
    stride: int | tuple[int, int] = 1,
    padding: Padding = "SAME",
) -> Float[Array, "rows newheight newwidth units"]:
    """The convolution of images with a kernel, channels last.

    **Arguments:** `stride` one number or two; `padding` is `SAME`, `VALID` or pairs of numbers, as in `jax.lax.conv`.

    Example::

        y = convolve(x, params["kernel"], stride=2) + params["bias"]
    """
    strides = (stride, stride) if isinstance(stride, int) else stride
    if jax.default_backend() != "cpu":
        return jax.lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=_IMAGES)
    return jnp.tensordot(patches(x, (kernel.shape[0], kernel.shape[1]), strides, padding), kernel, axes=3)


def patches(
    x: Float[Array, "rows height width channels"],
    size: tuple[int, int],
    strides: tuple[int, int],
    padding: Padding = "SAME",
) -> Float[Array, "rows newheight newwidth high wide channels"]:
    """What a kernel of that size sees at each of its places."""
    if isinstance(padding, str):
        padding = jax.lax.padtype_to_pads(x.shape[1:3], size, strides, padding)
    x = jnp.pad(x, ((0, 0), *padding, (0, 0)))
    # First along the width, then along the height: three and three slices instead of nine, which compile in less time.
    x = jnp.concatenate([_slice(x, 2, start, size[1], strides[1]) for start in range(size[1])], axis=-1)
    x = jnp.concatenate([_slice(x, 1, start, size[0], strides[0]) for start in range(size[0])], axis=-1)
    return x.reshape(*x.shape[:3], *size, -1)


def _slice(x: Array, axis: int, start: int, size: int, stride: int) -> Array:
    """What one place of the kernel sees along an axis, wherever the kernel stands."""
    count = (x.shape[axis] - size) // stride + 1
    return jax.lax.slice_in_dim(x, start, start + (count - 1) * stride + 1, stride, axis)


def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: jax.lax.ConvDimensionNumbers | tuple[str, str, str] | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    **options: Any,
) -> Array:
    """Stands in for `jax.lax.conv_general_dilated`: the fast form where it applies, JAX's own elsewhere.

    Flax takes it as an argument: `nnx.Conv(1, 64, (3, 3), conv_general_dilated=conv_general_dilated, rngs=rngs)`.
    """
    undilated = all(set(dilation or (1,)) == {1} for dilation in (lhs_dilation, rhs_dilation))
    numbers = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    if undilated and feature_group_count == batch_group_count == 1 and numbers == _IMAGES:
        return convolve(lhs, rhs, stride=(window_strides[0], window_strides[1]), padding=padding)
    return jax.lax.conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
        batch_group_count, **options,
    )  # fmt: skip
