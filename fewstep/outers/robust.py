r"""Adversarial querying: the gradient at queries, or supports, that an attack has made as bad as it can.

    gradient = d/dmeta L(meta, support, query + delta),   delta the attack's, held fixed

By Danskin's theorem this is the gradient of the worst case where delta is the worst; an attack only comes near it.

Reference: Goldblum, Fowl & Goldstein, Adversarially Robust Few-Shot Learning: A Meta-Learning Approach, NeurIPS 2020;
Wang, Xu, Liu, Chen, Weng, Gan & Wang, On Fast Adversarial Robustness Adaptation in Model-Agnostic Meta-Learning, ICLR
2021.
"""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from fewstep._contract import AFTER_TRAINING, Learner, Step, accepting
from fewstep._episode import Episode
from fewstep._errors import FewstepError, unknown
from fewstep._outer import Gradient, Outer, loss_gradient
from fewstep._rule import Meta
from fewstep._streams import ATTACK
from fewstep.attacks import Attack, Budget, fgsm, pgd

MakeAttack = Callable[..., Attack]
# What training can afford: attacks that raise an objective, made with `objective`.
TRAINING: dict[str, MakeAttack] = {
    "fgsm": lambda objective: fgsm(random_start=True, objective=objective),
    "pgd": lambda objective: pgd(7, step_size=0.25, objective=objective, keep="last"),
}


def robust(
    eps: float = 8 / 255,
    attack: str | MakeAttack = "fgsm",
    part: Literal["query", "support"] = "query",
    *,
    clean: float = 0.0,
    low: float = 0.0,
    high: float = 1.0,
    by: Outer = loss_gradient,
) -> Outer:
    r"""The gradient at attacked tasks: whatever the learner, it is trained for queries (or supports) made to fool it.

    **Arguments:** `eps`, the radius in the largest norm, of values from `low` to `high`; `attack(objective=...)` makes
    the attack, or a name: `fgsm` is one step of 1.25 eps from a random point, `pgd` takes seven; `part` is what is
    attacked; with `clean` above 0 that part of the gradient comes from the tasks as they are, which costs a second
    gradient; `by` takes each of them.

    Example::

        train(prototypes(conv4((28, 28, 1), None), ways=5), tasks, steps=1000, outer=robust(8 / 255))
    """
    if isinstance(attack, str) and attack not in TRAINING:
        raise unknown("attack", attack, TRAINING)
    if eps < 0 or not 0 <= clean < 1 or low >= high or part not in ("query", "support"):
        raise FewstepError(
            f"eps={eps}, clean={clean}, low={low}, high={high}, part={part!r}: eps is 0 or more, clean from 0 to below "
            "1, low below high, and part 'query' or 'support'."
        )
    whole = (TRAINING[attack] if isinstance(attack, str) else attack)(objective=lambda outputs, y: outputs[:, 0])
    budget = Budget(eps, low, high)

    def outer(learner: Learner) -> Gradient:
        of_tasks = accepting(by(learner), "outer_step")

        def attacked(meta: Meta, key: Key[Array, ""], episode: Episode, outer_step: Step) -> Episode:
            batch = getattr(episode, part)

            def losses(x: Array) -> Array:
                """The loss of the task, as the answer of every row."""
                task = episode._replace(**{part: batch._replace(x=x)})
                return jnp.broadcast_to(learner.loss(meta, key, task, outer_step=outer_step), (x.shape[0], 1))

            moved = whole.perturb(jax.random.fold_in(key, ATTACK), losses, batch.x, batch.y, budget)
            return jax.lax.stop_gradient(episode._replace(**{part: batch._replace(x=moved)}))

        def gradient(
            meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Array, *,
            outer_step: Step = AFTER_TRAINING,
        ) -> tuple[Array, Meta]:  # fmt: skip
            worse = jax.vmap(attacked, (None, 0, 0, None))(meta, keys, episodes, outer_step)
            losses, grads = of_tasks(meta, keys, worse, weights, outer_step=outer_step)
            if not clean:
                return losses, grads
            as_is, plain = of_tasks(meta, keys, episodes, weights, outer_step=outer_step)
            mix = lambda one, other: (1 - clean) * one + clean * other
            return mix(losses, as_is), jax.tree.map(mix, grads, plain)

        return gradient

    return outer
