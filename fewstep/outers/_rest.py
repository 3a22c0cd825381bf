"""Whether the point where inner steps come to rest depends on the meta-parameters: a trial on numbers of our own."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from fewstep._contract import Learner
from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep._network import flatten
from fewstep._rule import Flat, Meta

_TINY = 1e-4  # of what it is compared with: rounding


def refuse_without_rest(learner: Learner, supports: Batch) -> None:
    """Raises where an implicit gradient would leave some of the meta-parameters as they are forever.

    `supports` are stacked; of them only shapes and types are used. Nothing is raised where the learner itself is
    traced, as in a sweep over its step size: no number can be known then.
    """
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), supports)
    try:
        with jax.ensure_compile_time_eval():
            idle = [path for path, moves in flatten(_has_signal(learner, shapes)).items() if not moves]
    except jax.errors.UnexpectedTracerError:
        return
    if not idle:
        return
    own = sorted({path.partition("/")[0] for path in idle} - {"weights"})
    start = f"{sum(path.startswith('weights/') for path in idle)} arrays of the start"
    what = f"the {' and the '.join(own)}" if own else start
    raise FewstepError(
        "Implicit gradients cannot train this rule: where its inner steps come to rest does not depend on "
        f"{what}, which would get no signal. Use outer=unrolled, or a rule without it; a start gets a signal by a pull "
        "to it, such as an `inner_loss` with the squared distance to meta['weights']."
    )


def _has_signal(learner: Learner, shapes: Batch) -> PyTree:
    """For each array of the meta-parameters, whether a point of rest, or the loss there, depends on it.

    It does if the loss depends on it with the adapted weights held, or the inner gradient does, or a step does at a
    point that is one of rest for certain: the start, where no example counts.
    """
    key = jax.random.key(0)

    @jax.jit
    def measured() -> tuple[Meta, Meta, Meta, Meta]:
        meta = _away(learner.init(key), 1)
        x, y = _numbers(shapes.x, 2), _numbers(shapes.y, 3)
        support, nothing = Batch(x, y, jnp.ones(shapes.weight.shape)), Batch(x, y, jnp.zeros(shapes.weight.shape))
        assert learner.step is not None
        begin = learner.step(meta, key, support).start
        slopes = partial(_slopes, learner, meta, key)
        whole, held = slopes(support, begin.fast), slopes(support, begin.fast, first_order=True)
        direct = jax.grad(lambda m: learner.loss(m, key, Episode(support, support), fast=begin.fast))(meta)
        return direct, whole, held, slopes(nothing, begin.fast, first_order=True)

    there = lambda direct, whole, held, rest: bool(
        (direct != 0).any() | (abs(whole - held) > _TINY * abs(held).max()).any() | (rest != 0).any()
    )
    return jax.tree.map(there, *measured())


def _slopes(learner: Learner, meta: Meta, key: Array, support: Batch, fast: Flat, *, first_order: bool = False) -> Meta:
    """How one step from some weights depends on the meta-parameters; `first_order` holds the inner gradient."""

    def moved(meta: Meta) -> Array:
        assert learner.step is not None
        start, take = learner.step(meta, key, support, first_order=first_order)
        flat, _ = ravel_pytree(take(start._replace(fast=fast), 0).fast)
        return jnp.vdot(jnp.cos(jnp.arange(flat.size, dtype=flat.dtype)), flat)  # some direction

    return jax.grad(moved)(meta)


def _numbers(shapes: PyTree, seed: int) -> PyTree:
    """Numbers of some shapes and types, the whole ones 0."""
    return _away(jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes), seed)


def _away(tree: PyTree, seed: int) -> PyTree:
    """The numbers of a tree, moved a little: identities and zeros hide what depends on them."""

    def moved(leaf: Array) -> Array:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        return leaf + 0.3 * jax.random.normal(jax.random.key(seed), leaf.shape, leaf.dtype)

    return jax.tree.map(moved, tree)
