"""What makes robustness fake: signs that an attack, or what it attacks, is not what it seems."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._contract import Learner
from fewstep._rule import Meta
from fewstep.attacks._attack import Attack, cross_entropy
from fewstep.attacks.evaluation import WORST, Box, Robustness, Setting, attack_queries, first_task
from fewstep.attacks.pgd import pgd

_TASKS = 10
_SLACK = 0.02  # by how much a black box may be ahead, beside the intervals


class Check(NamedTuple):
    """One check: its name, whether it holds, and what was seen."""

    name: str
    holds: bool
    text: str


def check_learner(learner: Learner, meta: Meta, setting: Setting, box: Box) -> list[Check]:
    """Checks of what is attacked: each query is answered for itself, gradients do not vanish, and with a budget as wide
    as the range of values next to nothing stays right."""
    _, query, answers = first_task(learner, meta, setting)
    alone = jnp.concatenate([answers(row[None]) for row in query.x])
    apart = float(jnp.max(jnp.abs(alone - answers(query.x))) / (1e-6 + jnp.max(jnp.abs(alone))))
    slope = jax.grad(lambda x: cross_entropy(answers(x), query.y).sum())(query.x)
    flat = float(jnp.mean(jnp.all(slope.reshape(len(slope), -1) == 0, axis=1)))
    wide = float(np.max(np.asarray(box.high) - np.asarray(box.low)))
    far = attack_queries(
        learner, meta, setting._replace(n_tasks=min(_TASKS, setting.n_tasks)), {"pgd": pgd(20, objective="margin")},
        box, (wide,),
    ).scores["pgd"][0].mean  # fmt: skip
    chance = 1 / int(answers(query.x).shape[1])
    return [
        Check("each query is answered for itself", apart < 1e-3,
              f"Answers to a query alone and among others differ by {apart:.1%} at most."),
        Check("gradients do not vanish", flat < 0.5, f"{flat:.0%} of the queries have a gradient of 0."),
        Check("accuracy falls with the budget", far <= chance / 2,
              f"With a radius of {wide:g} the accuracy is {far:.1%}; guessing has {chance:.0%}."),
    ]  # fmt: skip


def check_result(found: Robustness, attacks: dict[str, Attack]) -> list[Check]:
    """Checks of a result: no black box is ahead of the white boxes, and more budget never helps the defender."""
    checks = []
    white = [name for name, attack in attacks.items() if attack.gradient]
    black = [name for name, attack in attacks.items() if not attack.gradient and attack.norm != "grid"]
    same = {attacks[name].norm for name in white} & {attacks[name].norm for name in black}
    for norm in sorted(same):
        lowest = lambda names, norm=norm: np.min(
            [[score.mean for score in found.scores[n]] for n in names if attacks[n].norm == norm], axis=0
        )
        ahead = float(np.max(lowest(white) - lowest(black)))
        checks.append(
            Check("no black box is ahead of the gradient", ahead <= _SLACK, f"At most {max(ahead, 0):.1%} ({norm}).")
        )
    order = np.argsort(found.eps)
    means = np.asarray([score.mean for score in found.scores[WORST]])[order]
    rise = float(np.max(np.diff(means), initial=0.0))
    checks.append(Check("more budget, less accuracy", rise <= _SLACK, f"The accuracy rises by {rise:.1%} at most."))
    return checks
