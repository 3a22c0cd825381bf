"""What augmentations of images share: boxes, turns, and what they refuse."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from fewstep._episode import Batch
from fewstep._errors import FewstepError


def turned(
    x: Float[Array, "rows high wide channels"], turns: Int[Array, ""]
) -> Float[Array, "rows high wide channels"]:
    """Images turned by so many times 90 degrees."""
    flipped = jnp.where(turns >= 2, x[:, ::-1, ::-1], x)
    return jnp.where(turns % 2 == 1, jnp.swapaxes(flipped, 1, 2)[:, ::-1], flipped)


def draw_box(key: Key[Array, ""], share: Float[Array, ""], high: int, wide: int) -> Bool[Array, "high wide"]:
    """The pixels of a box somewhere in an image, about so large a share of it."""
    side = jnp.sqrt(share)
    even = jax.random.uniform(key, (2,))

    def inside(size: int, even: Float[Array, ""]) -> Bool[Array, " size"]:
        length = jnp.round(side * size)
        first = jnp.floor(even * (size - length + 1))
        place = jnp.arange(size)
        return (place >= first) & (place < first + length)

    return inside(high, even[0])[:, None] & inside(wide, even[1])[None]


def check_images(name: str, batch: Batch) -> None:
    """Raises where the rows are not labeled images."""
    if batch.x.ndim != 4 or not jnp.issubdtype(batch.y.dtype, jnp.integer):
        raise FewstepError(
            f"The augmentation {name!r} is for images with labels of classes, and a task has x of shape "
            f"{batch.x.shape} and y of {batch.y.dtype}. For numbers to predict use 'label_shift'."
        )
