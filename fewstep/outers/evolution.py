r"""Evolution: the outer gradient from losses alone, of pairs of meta-parameters moved to both sides.

    gradient = mean over pairs of  e (L(meta + e) - L(meta - e)) / (2 std^2),        e ~ N(0, std^2)

It is the gradient of the loss that is smoothed by this noise, without bias. Its noise grows with the number of
meta-parameters that are moved.

Reference: Salimans, Ho, Chen, Sidor & Sutskever, Evolution Strategies as a Scalable Alternative to Reinforcement
Learning, 2017; Song, Gao, Yang, Choromanski, Pacchiano & Tang, ES-MAML, ICLR 2020.
"""

from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from fewstep import losses
from fewstep._contract import AFTER_TRAINING, Learner, Step
from fewstep._episode import Batch, Episode, fill_batch
from fewstep._errors import FewstepError
from fewstep._outer import Gradient, Outer
from fewstep._rule import Meta
from fewstep._streams import PERTURBATIONS
from fewstep.compute import weighted_sum
from fewstep.files import function_of

Score = Callable[[PyTree, Batch], Float[Array, ""]]
OneLoss = Callable[[Meta], Float[Array, ""]]
SCORES: dict[str, Score | None] = {
    "loss": None, "squared_error": losses.squared_error, "absolute_error": losses.absolute_error,
    "cross_entropy": losses.cross_entropy, "error_rate": losses.error_rate,
}  # fmt: skip


def evolution(
    of: Annotated[tuple[str, ...], "Meta-parameters to move, such as rates; none: all. The rest is unrolled"] = (),
    pairs: Annotated[int, "Pairs of moves for each task"] = 8,
    std: Annotated[float, "Size of a move"] = 0.01,
    whole: Annotated[bool, "Move each array as a whole, by one number"] = False,
    score: Annotated[
        str | Score, f"What is lowered: {', '.join(SCORES)}, or FILE.py:FUNCTION of prediction and batch"
    ] = "loss",
    steps: Annotated[int, "Inner steps before a score other than the loss"] = 1,
) -> Outer:
    r"""Evolution strategies with antithetic pairs, for few meta-parameters or a score without a derivative.

    A difference that is not finite counts as none. Meta-parameters that are not named in `of` get the exact gradient of
    the learner's loss.

    **Arguments:** `of` the names in meta to move; `pairs` of losses for each task; `std` of the moves; `whole` moves
    all numbers of an array alike, which is far fewer to search: then the gradient is its mean over the array; `score(
    prediction, batch)` on the query is lowered in place of the loss, after `steps` inner steps.

    Example::

        outer = evolution(of=("rates",), whole=True, score=error_rate, std=0.05)
        train(learner, tasks, steps=1000, outer=outer)
    """
    if pairs < 1 or std <= 0:
        raise FewstepError(f"pairs={pairs}, std={std}: give at least one pair, and a std above 0 such as 0.01.")
    by = _named(score) if isinstance(score, str) else score

    def outer(learner: Learner) -> Gradient:
        def one(meta: Meta, key: Key[Array, ""], episode: Episode, outer_step: Step) -> tuple[Array, Meta]:
            def loss(meta: Meta) -> Float[Array, ""]:
                return learner.loss(meta, key, episode, outer_step=outer_step)

            def lowered(meta: Meta) -> Float[Array, ""]:
                if by is None:
                    return loss(meta)
                query = fill_batch(episode.query)
                adapted = learner.adapt(meta, key, episode.support, steps, outer_step=outer_step)
                return by(learner.predict(meta, adapted, query.x, query.weight), query)

            chosen = _chosen(meta, of)
            rest = {name: part for name, part in meta.items() if name not in chosen}
            noise = jax.random.split(jax.random.fold_in(key, PERTURBATIONS), pairs)
            mean, moved = _estimate(lambda some: lowered(meta | some), chosen, noise, std, whole)
            value, exact = jax.value_and_grad(lambda some: loss(meta | some))(rest) if rest else (mean, {})
            return value if by is None else mean, {name: (exact | moved)[name] for name in meta}

        def gradient(
            meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Array, *,
            outer_step: Step = AFTER_TRAINING,
        ) -> tuple[Array, Meta]:  # fmt: skip
            values, each = jax.vmap(one, (None, 0, 0, None))(meta, keys, episodes, outer_step)
            return values, weighted_sum(weights, each)

        return gradient

    return outer


def _estimate(
    lowered: OneLoss, chosen: Meta, noise: Key[Array, " pairs"], std: float, whole: bool
) -> tuple[Array, Meta]:
    """The mean loss of the pairs, and the gradient that they show."""

    def of_pair(key: Key[Array, ""]) -> tuple[Array, Meta]:
        move = _draw(key, chosen, whole)
        up, down = (lowered(jax.tree.map(lambda a, e, s=sign: a + s * std * e, chosen, move)) for sign in (1, -1))
        slope = jnp.nan_to_num((up - down) / (2 * std), nan=0.0, posinf=0.0, neginf=0.0)
        share = lambda e: slope * e / (e.size if whole else 1)
        return (up + down) / 2, jax.tree.map(share, move)

    values, slopes = jax.lax.map(of_pair, noise)
    return values.mean(), jax.tree.map(lambda leaf: leaf.mean(0), slopes)


def _draw(key: Key[Array, ""], like: Meta, whole: bool) -> Meta:
    """Normal numbers; with `whole` the same one all over an array."""
    leaves, structure = jax.tree.flatten(like)
    keys = jax.random.split(key, len(leaves))
    drawn = [
        jax.random.normal(k, () if whole else leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(
        structure, [jnp.broadcast_to(e, leaf.shape) for e, leaf in zip(drawn, leaves, strict=True)]
    )


def _chosen(meta: Meta, of: tuple[str, ...]) -> Meta:
    if missing := [name for name in of if name not in meta]:
        raise FewstepError(
            f"`of` names {', '.join(missing)}, which the rule does not have. Its meta-parameters are {', '.join(meta)}."
        )
    return {name: meta[name] for name in of or meta}


def _named(score: str) -> Score | None:
    return SCORES[score] if score in SCORES else function_of("score", score, "(prediction, batch)", SCORES)
