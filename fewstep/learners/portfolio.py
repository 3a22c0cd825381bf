r"""Several learners that answer together, with weights for each number of rows that were learned from.

    prediction(x) = sum_m w_m(n) prediction_m(x),      w_m(n) >= 0,   sum_m w_m(n) = 1

A member answers by the mean over its seeds and samples of its masks. Of classes, probabilities are mixed. A member
whose answer at a row is not finite is left out there. Rows whose target is not `Credible` are not learned from.

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


class Credible(NamedTuple):
    """The ends of each target that is learned from, and the member that answers alone where no row has such a one, if
    it is one of the portfolio."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    otherwise: str

    def rows(self, support: Batch) -> Float[Array, " rows"]:
        """The weights of the rows, those of targets between the ends."""
        inside = (support.y >= jnp.asarray(self.low)[None]) & (support.y <= jnp.asarray(self.high)[None])
        return jnp.where(inside.all(1), support.weight, 0.0)


def portfolio(
    members: Mapping[str, Member], shots: tuple[int, ...], loss: Loss, *, classes: bool = False,
    credible: Credible | None = None,
) -> Learner:  # fmt: skip
    """The learner of some members, with weights for these numbers of rows: a support of another size takes those of the
    largest number that is not more. Without `credible` all rows are learned from.

    Its meta-parameters are the `weights`, a row for each number of rows, and under `members` those of each, with an
    axis of seeds in front.
    """
    alone = None if credible is None or credible.otherwise not in members else list(members).index(credible.otherwise)

    def init(key: Key[Array, ""]) -> Meta:
        keys = dict(zip(members, jax.random.split(key, len(members)), strict=True))
        metas = {n: jax.vmap(m.learner.init)(jax.random.split(keys[n], m.seeds)) for n, m in members.items()}
        return {"members": metas, "weights": jnp.full((len(shots), len(members)), 1 / len(members))}

    def adapt(meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...]) -> Adapted:
        if credible is not None:
            support = support._replace(weight=credible.rows(support))
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
