r"""Several learners that answer together, with weights for each number of rows that were learned from.

    prediction(x) = sum_m w_m(n) prediction_m(x),      w_m(n) >= 0,   sum_m w_m(n) = 1

A member answers by the mean over its seeds and samples of its masks. Of classes, probabilities are mixed. A member
whose answer at a row is not finite is left out there. Rows whose target lies outside the `ends` that the parameters
have are not learned from, nor is any of a support of which several and more than a quarter lie outside.

Reference: Wolpert, Stacked generalization, Neural Networks 1992; Breiman, Stacked regressions, Machine Learning 1996.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from fewstep._episode import Batch, Episode
from fewstep._learner import Adapted, Learner, Loss
from fewstep._rule import Meta

_TINY = 1e-12


class Member(NamedTuple):
    """A learner of a portfolio, the inner steps that it takes, its seeds, and the samples of its masks."""

    learner: Learner
    steps: int = 0
    seeds: int = 1
    samples: int = 1


def portfolio(
    members: Mapping[str, Member], shots: tuple[int, ...], loss: Loss, *, outputs: int = 1, classes: bool = False,
    otherwise: str | None = None,
) -> Learner:  # fmt: skip
    """The learner of some members, with weights for these numbers of rows: a support of another size takes those of the
    largest number that is not more. `otherwise` names the member that answers alone where no row is left to learn from.

    Its meta-parameters are the `weights`, a row for each number of rows; under `members` those of each, with an axis of
    seeds in front; and of numbers the `ends` between which each output is learned from, by default all numbers.
    """
    alone = list(members).index(otherwise) if otherwise is not None and otherwise in members else None

    def init(key: Key[Array, ""]) -> Meta:
        keys = dict(zip(members, jax.random.split(key, len(members)), strict=True))
        metas = {n: jax.vmap(m.learner.init)(jax.random.split(keys[n], m.seeds)) for n, m in members.items()}
        weights = jnp.full((len(shots), len(members)), 1 / len(members))
        return {"members": metas, "weights": weights} | ({} if classes else {"ends": all_numbers(outputs)})

    def adapt(meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...]) -> Adapted:
        if not classes:
            support = support._replace(weight=_between(meta["ends"], support))
        number = jnp.sum(support.weight > 0)
        at = jnp.clip(jnp.searchsorted(jnp.asarray(shots), number, side="right") - 1, 0)
        weights = meta["weights"][at]
        if alone is not None:
            weights = jnp.where(number > 0, weights, jnp.zeros_like(weights).at[alone].set(1.0))
        state = {}
        for name, member in members.items():
            state[name] = _adapt_all(member, meta["members"][name], key, support)
            support, state[name] = _after(support, state[name])
        once = Adapted({"weights": weights}, state)
        return once if isinstance(steps, int) else jax.tree.map(lambda leaf: jnp.stack([leaf] * len(steps)), once)

    def moments(meta: Meta, adapted: Adapted, x: Array, weight: Array | None) -> tuple[Array, Array]:
        """The mean of all members, and their variance around it with that which they report themselves."""
        of = []
        for name, member in members.items():
            x, one = _after(x, _answer_all(member, meta["members"][name], adapted.state[name], x, weight, classes))
            of.append(one)
        return mixed_moments(
            adapted.fast["weights"][:, None], jnp.stack([mean for mean, _ in of]), jnp.stack([own for _, own in of])
        )

    def predict(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        mean, _ = moments(meta, adapted, x, weight)
        return jnp.log(jnp.maximum(mean, _TINY)) if classes else mean

    def spread(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        return jnp.sqrt(moments(meta, adapted, x, weight)[1])

    def episode_loss(meta: Meta, key: Key[Array, ""], episode: Episode) -> Float[Array, ""]:
        return loss(predict(meta, adapt(meta, key, episode.support, 0), episode.query.x), episode.query)

    return Learner(init, episode_loss, adapt, predict, spread=spread)


def all_numbers(outputs: int) -> Float[Array, "2 outputs"]:
    """The ends between which every finite number lies."""
    most = float(jnp.finfo(jnp.result_type(float)).max)
    return jnp.asarray([[-most] * outputs, [most] * outputs])


def _between(ends: Float[Array, "2 outputs"], support: Batch) -> Float[Array, " rows"]:
    """The weights of the rows, 0 for those with a target that does not lie between the ends; 0 for all, if several are
    such, and more than a quarter: in another unit, those that happen to lie between are as wrong."""
    inside = ((support.y >= ends[0][None]) & (support.y <= ends[1][None])).all(1)
    there = support.weight > 0
    count = jnp.sum(there & ~inside)
    return jnp.where(inside & ~((count > 1) & (4 * count > there.sum())), support.weight, 0.0)


def _after(data: PyTree, result: PyTree) -> tuple[PyTree, PyTree]:
    """Both, so that what is computed from the data next waits for the result. Members side by side in one program gain
    nothing on a CPU, and programs of many kinds of kernels were seen to wait for each other forever (jaxlib 0.10.2)."""
    return jax.lax.optimization_barrier((data, result))


def mixed_moments(
    weights: Float[Array, "members #rows"],
    means: Float[Array, "members rows outputs"],
    variances: Float[Array, "members rows outputs"],
) -> tuple[Float[Array, "rows outputs"], Float[Array, "rows outputs"]]:
    """Mean and variance of the mixture of members at each row, of those that are finite there."""
    there = jnp.isfinite(means).all(-1) & jnp.isfinite(variances).all(-1) & (weights > 0)
    share = jnp.where(there, weights, 0.0)
    share = (share / jnp.maximum(share.sum(0), _TINY)[None])[:, :, None]
    means, variances = (jnp.where(there[:, :, None], values, 0.0) for values in (means, variances))
    mean = (share * means).sum(0)
    return mean, (share * (variances + jnp.square(means - mean[None]))).sum(0)


def _adapt_all(member: Member, metas: Meta, key: Key[Array, ""], support: Batch) -> PyTree:
    """Every seed and sample after learning the task, with axes of both in front."""

    def one(meta: Meta, number: Int[Array, ""]) -> Adapted:
        return member.learner.adapt(meta, jax.random.fold_in(key, number), support, member.steps)

    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(metas, jnp.arange(member.samples))


def _answer_all(
    member: Member, metas: Meta, adapted: PyTree, x: Array, weight: Array | None, classes: bool
) -> tuple[Float[Array, "rows outputs"], Float[Array, "rows outputs"]]:
    """Mean and variance of a member: over its seeds and samples, and what each reports itself."""
    learner = member.learner

    def one(meta: Meta, own: Adapted) -> tuple[Array, Array]:
        y = learner.predict(meta, own, x, weight)
        if classes:
            return jax.nn.softmax(y), jnp.zeros_like(y)
        return y, jnp.zeros_like(y) if learner.spread is None else jnp.square(learner.spread(meta, own, x, weight))

    means, own = jax.vmap(jax.vmap(one, (None, 0)))(metas, adapted)
    mean = means.mean((0, 1))
    return mean, (own + jnp.square(means - mean[None, None])).mean((0, 1))
