"""Why a training has stopped being finite: the tasks, the start, or steps that were too large."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fewstep._episode import Batch, Episode, Tasks
from fewstep._errors import FewstepError
from fewstep._outer import task_keys


class NotFinite(FewstepError):
    """Training met a loss or gradient that is not finite, in every seed; `step` says where, `reason` why."""

    def __init__(self, step: int, reason: str, checkpoint: str = ""):
        super().__init__(f"{reason} {checkpoint}".rstrip())
        self.step, self.reason = step, reason


def why_not_finite(tasks: Tasks, keys: Key[Array, " seeds"], meta_batch: int, step: int) -> str:
    """What a user can do about it: the tasks of the step are drawn again, by the keys they were drawn by."""

    def draw(data: PyTree, key: Key[Array, ""]) -> Episode:
        of_data, _ = task_keys(key, jnp.arange(meta_batch))
        return jax.vmap(tasks.sample, (None, 0))(data, of_data)

    episodes = jax.jit(jax.vmap(draw, (None, 0)))(tasks.data, keys)
    parts = {"support": episodes.support, "query": episodes.query}
    if bad := [f"the {name} of the {part}" for part, batch in parts.items() for name in _not_finite(batch)]:
        return (
            f"The tasks of step {step} hold NaN or infinite values in {' and '.join(bad)}, so the loss is not finite. "
            "Fill these values or remove their rows, or give the rows weight 0, as padding has."
        )
    if step == 1:
        return (
            "The loss or its gradient is not finite at step 1, before anything was learned, though the tasks are. "
            "Look at the network and the loss: a label that has no output, a logarithm or a division that has no "
            "value. Or the inner steps are too large: try a smaller inner learning rate, or fewer inner steps."
        )
    return (
        f"The loss or its gradient is no longer finite at step {step}. The steps grew too large: try a smaller "
        "inner or outer learning rate, clip the outer gradient, or take fewer inner steps."
    )


def _not_finite(batch: Batch) -> list[str]:
    """Which of x and y hold something that is not finite in a row that counts."""
    there = np.asarray(batch.weight) > 0
    bad = lambda leaf: not np.isfinite(np.asarray(leaf, float)[there]).all()
    return [name for name in ("x", "y") if any(bad(leaf) for leaf in jax.tree.leaves(getattr(batch, name)))]
