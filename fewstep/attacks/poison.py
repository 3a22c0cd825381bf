r"""Poison: a support set that teaches the wrong thing, made through adaptation.

    max over |delta| <= eps of  L(f_adapted(query), y),   adapted = adapt(support + delta)

Reference: Oldewage, Bronskill & Turner, Adversarial Attacks are a Surprisingly Strong Baseline for Poisoning Few-Shot
Meta-Learners, 2022; Xu, Li, Wu, Yang & Zhang, Yet Meta Learning Can Adapt Fast, It Can Also Break Easily, SDM 2021.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._contract import Learner
from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep._rule import Meta
from fewstep._streams import POISON
from fewstep.attacks._attack import Attack, Budget, Objective, cross_entropy, over
from fewstep.losses import weighted_mean

MakeAttack = Callable[..., Attack]


def poison_rows(support: Batch, share: float) -> Float[Array, " rows"]:
    """The first rows of each class, so many that they are the share of it, at least one; of numbers, of all rows."""
    count = lambda total: jnp.maximum(1, jnp.floor(share * total + 0.5))
    if not jnp.issubdtype(jnp.asarray(support.y).dtype, jnp.integer):
        return (jnp.arange(len(support.weight)) < count(support.weight.sum())).astype(support.weight.dtype)
    same = (support.y[:, None] == support.y[None]) & (support.weight > 0)[None]
    before = jnp.tril(same, -1).sum(axis=1)
    return (before < count(same.sum(axis=1))).astype(support.weight.dtype) * (support.weight > 0)


def poison(
    attack: MakeAttack, learner: Learner, meta: Meta, key: Key[Array, ""], episode: Episode, budget: Budget, *,
    steps: int = 1, rows: Float[Array, " rows"] | None = None, objective: Objective = cross_entropy,
) -> Batch:  # fmt: skip
    """The support, with the x of the marked rows moved so that what is learned from it fails on the query.

    **Arguments:** `attack(objective=...)` makes the attack: `pgd`, or `partial(pgd, 50)`, derives the query's loss
    through adaptation, `square` only asks for it; `rows` marks what may be moved, by default everything; `steps` are
    the learner's inner steps. Labels stay as they are. Evaluate it on queries that are not in the `episode`.
    """
    support, query = episode
    marks = jnp.ones_like(support.weight) if rows is None else rows
    chosen = lambda x: jnp.where(over(marks, x) > 0, x, support.x)

    def answers(x: Array) -> Array:
        """The query's loss, as the answer of every row."""
        adapted = learner.adapt(meta, key, support._replace(x=chosen(x)), steps)
        values = objective(learner.predict(meta, adapted, query.x, query.weight), query.y)
        return jnp.broadcast_to(weighted_mean(values, query.weight), (x.shape[0], 1))

    whole = attack(objective=lambda outputs, y: outputs[:, 0])
    return support._replace(
        x=chosen(whole.perturb(jax.random.fold_in(key, POISON), answers, support.x, support.y, budget))
    )


def flip_labels(
    learner: Learner, meta: Meta, key: Key[Array, ""], episode: Episode, ways: int, *, flips: int = 1, steps: int = 1,
    objective: Objective = cross_entropy,
) -> Batch:  # fmt: skip
    """The support with so many labels changed, one after the other, each to the worst for the query."""
    support, query = episode
    if flips < 0:
        raise FewstepError(f"flips is {flips}. Give 0 or more.")
    rows = jnp.arange(len(support.weight))

    def value(row: Array, label: Array, y: Array) -> Array:
        adapted = learner.adapt(meta, key, support._replace(y=y.at[row].set(label)), steps)
        worse = objective(learner.predict(meta, adapted, query.x, query.weight), query.y)
        return jnp.where(support.weight[row] > 0, (worse * query.weight).sum(), -jnp.inf)

    def flip(_: Array, y: Array) -> Array:
        pairs = jnp.stack(jnp.meshgrid(rows, jnp.arange(ways), indexing="ij"), -1).reshape(-1, 2)
        values = jax.lax.map(lambda pair: value(pair[0], pair[1], y), pairs)
        row, label = pairs[jnp.argmax(values)]
        return y.at[row].set(label.astype(y.dtype))

    return support._replace(y=jax.lax.fori_loop(0, flips, flip, support.y))
