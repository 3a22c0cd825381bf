"""A user's arrays as a `Batch`, checked."""

import jax.numpy as jnp
import numpy as np

from fewstep._episode import Batch
from fewstep._errors import FewstepError


def batch(x: object, y: object, weight: object = None) -> Batch:
    """Makes a `Batch` of arrays, lists or frames, and checks them.

    **Arguments:** `x` and `y` with one row per example (a vector is taken as one column; a `y` of integers stays a
    vector of labels); `weight` one number per row, all ones by default.

    **Returns:** a `Batch`. Raises `FewstepError` for an empty set, unequal lengths, text, or values not finite.
    """
    x, y = rows("x", x), rows("y", y)
    x = x[:, None] if x.ndim == 1 else x
    if x.shape[0] != y.shape[0]:
        raise FewstepError(f"x has {x.shape[0]} rows and y has {y.shape[0]}. Each row of x needs its row of y.")
    weight = np.ones(x.shape[0]) if weight is None else np.asarray(weight, float)
    if weight.shape != (x.shape[0],):
        raise FewstepError(f"weight has shape {weight.shape} for {x.shape[0]} rows. Give one number per row.")
    if not np.isfinite(weight).all() or (weight < 0).any() or not (weight > 0).any():
        raise FewstepError("weight must be finite, not negative, and above 0 somewhere: it says how much a row counts.")
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.asarray(weight, jnp.result_type(float)))


def rows(name: str, values: object) -> np.ndarray:
    """`values` as an array of finite numbers with at least one row; a vector of fractions becomes one column."""
    try:
        array = np.asarray(values)
        array = array.astype(np.int32 if array.dtype.kind in "iub" else jnp.result_type(float))
    except (ValueError, TypeError) as error:
        raise FewstepError(f"{name} is not a table of numbers: {error}.") from None
    if array.ndim == 0 or array.shape[0] == 0:
        raise FewstepError(f"{name} has no rows (shape {array.shape}). A task needs at least one example.")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise FewstepError(
            f"{name} holds {array[at]} at row {at[0] + 1} ({len(bad)} such values). Remove or fill these rows first."
        )
    return array[:, None] if array.ndim == 1 and array.dtype.kind == "f" else array
