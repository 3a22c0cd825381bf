"""Accuracy under attack on unseen tasks, by budget and attack, with the checks that robustness has to pass."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from fewstep._contract import Learner
from fewstep._episode import Batch, Episode, Tasks, fill_batch
from fewstep._errors import FewstepError
from fewstep._outer import task_keys
from fewstep._rule import Meta
from fewstep._streams import ATTACK, TEST
from fewstep.attacks._attack import Answers, Attack, Budget
from fewstep.attacks.poison import MakeAttack, poison, poison_rows
from fewstep.compute import light
from fewstep.evaluation import Score, summarize

CLEAN, WORST = "clean", "worst"
Box = Budget  # with any radius: its ends and scale
Say = Callable[[str], None]


class Robustness(NamedTuple):
    """Accuracies on the same tasks: `scores[name][n]` is that under the attack `name` with the radius `eps[n]`; `clean`
    is without one, and `worst` counts a query as right only where it withstands every attack."""

    eps: tuple[float, ...]
    scores: dict[str, list[Score]]
    right: dict[str, Float[np.ndarray, "tasks eps rows"]]


class Setting(NamedTuple):
    """Which tasks are attacked, and how they are learned: `steps` inner steps, `n_tasks` tasks drawn by `seed`."""

    tasks: Tasks
    shots: int
    steps: int = 1
    n_tasks: int = 100
    seed: int = 0


def attack_queries(
    learner: Learner, meta: Meta, setting: Setting, attacks: Mapping[str, Attack], box: Box, eps: tuple[float, ...], *,
    surrogate: tuple[Learner, Meta] | None = None, say: Say = lambda message: None,
) -> Robustness:  # fmt: skip
    """Learns each task from its clean support, and attacks its queries.

    The learner must answer each query for itself, not by the statistics of a query set that the attacker chooses.
    Random masks are drawn once per task, and the attacker knows them. With a `surrogate`, another learner and its
    meta-parameters, the attacker has only the weights that it learns from the same support.
    """
    _check(setting, eps)

    def prepare(data: PyTree, index: Array) -> tuple[Key[Array, ""], Batch, Answers, Answers]:
        key, support, query = _task(setting, data, index)
        own = _answers(learner, meta, key, support, setting.steps)
        other = own if surrogate is None else _answers(*surrogate, key, support, setting.steps)
        return jax.random.fold_in(key, ATTACK), query, own, other

    def under(attack: Attack, data: PyTree, index: Array) -> Array:
        key, query, own, other = prepare(data, index)
        at = lambda radius: own(attack.perturb(key, other, query.x, query.y, box._replace(eps=radius)))
        return jax.lax.map(lambda radius: _right(at(radius), query), jnp.asarray(eps, jnp.float32))

    def clean(data: PyTree, index: Array) -> Array:
        _, query, own, _ = prepare(data, index)
        return jnp.stack([_right(own(query.x), query)] * len(eps))

    def everywhere(attack: Attack, data: PyTree) -> Array:
        """All tasks at once, for a perturbation that they share."""
        key = jax.random.fold_in(jax.random.key(setting.seed), ATTACK)
        drawn = jax.lax.map(lambda index: _task(setting, data, index), jnp.arange(setting.n_tasks))
        query = drawn[2]
        adapted = jax.lax.map(lambda task: learner.adapt(meta, task[0], task[1], setting.steps), drawn[:2])
        flat = lambda array: array.reshape(-1, *array.shape[2:])

        def answers(x: Array) -> Array:
            each = lambda task: learner.predict(meta, *task)
            return flat(jax.lax.map(each, (adapted, x.reshape(query.x.shape))))

        def at(radius: Array) -> Array:
            moved = attack.perturb(key, answers, flat(query.x), flat(query.y), box._replace(eps=radius))
            return jax.vmap(_right)(answers(moved).reshape(*query.y.shape, -1), query)

        return jnp.moveaxis(jax.lax.map(at, jnp.asarray(eps, jnp.float32)), 0, 1)

    right = {CLEAN: _mapped(clean, setting)}
    for number, (name, attack) in enumerate(attacks.items()):
        say(f"Attacking with {name}, {number + 1} of {len(attacks)}.")
        found = (
            np.asarray(jax.jit(partial(everywhere, attack), compiler_options=light())(setting.tasks.data))
            if attack.shared else _mapped(partial(under, attack), setting)
        )  # fmt: skip
        right[name] = np.minimum(found, right[CLEAN])  # what is wrong without an attack does not become right by one
    return _summary(right, eps, setting)


def attack_supports(
    learner: Learner, meta: Meta, setting: Setting, attacks: Mapping[str, MakeAttack], box: Box,
    eps: tuple[float, ...], *, share: float = 1.0, say: Say = lambda message: None,
) -> Robustness:  # fmt: skip
    """Poisons the share of the support that is given, at least one row of each class, through adaptation, and evaluates
    on queries that were not used for it: the second half of each class's."""
    _check(setting, eps)

    def halves(query: Batch) -> tuple[Batch, Batch]:
        seen = poison_rows(query, 0.5)
        return query._replace(weight=query.weight * seen), query._replace(weight=query.weight * (1 - seen))

    def under(make: MakeAttack, data: PyTree, index: Array) -> Array:
        key, support, query = _task(setting, data, index)
        seen, unseen = halves(query)
        rows = poison_rows(support, share)

        def at(radius: Array) -> Array:
            moved = poison(
                make, learner, meta, key, Episode(support, seen), box._replace(eps=radius), steps=setting.steps,
                rows=rows,
            )  # fmt: skip
            return _right(_answers(learner, meta, key, moved, setting.steps)(query.x), unseen)

        return jax.lax.map(at, jnp.asarray(eps, jnp.float32))

    def clean(data: PyTree, index: Array) -> Array:
        key, support, query = _task(setting, data, index)
        own = _right(_answers(learner, meta, key, support, setting.steps)(query.x), halves(query)[1])
        return jnp.stack([own] * len(eps))

    right = {CLEAN: _mapped(clean, setting)}
    for number, (name, make) in enumerate(attacks.items()):
        say(f"Poisoning with {name}, {number + 1} of {len(attacks)}.")
        right[name] = _mapped(partial(under, make), setting)
    return _summary(right, eps, setting)


def first_task(learner: Learner, meta: Meta, setting: Setting) -> tuple[Key[Array, ""], Batch, Answers]:
    """The first task: its key, its queries, and the answers after learning it."""
    data = jax.tree.map(jnp.asarray, setting.tasks.data)
    key, support, query = _task(setting, data, jnp.asarray(0))
    return key, query, _answers(learner, meta, key, support, setting.steps)


def _task(setting: Setting, data: PyTree, index: Array) -> tuple[Key[Array, ""], Batch, Batch]:
    key = jax.random.fold_in(jax.random.key(setting.seed), TEST)
    of_data, of_task = (some[0] for some in task_keys(key, index[None]))
    support, query = setting.tasks.sample(data, of_data)
    return of_task, support, fill_batch(query)


def _answers(learner: Learner, meta: Meta, key: Key[Array, ""], support: Batch, steps: int) -> Answers:
    adapted = learner.adapt(meta, key, support, steps)
    return lambda x: learner.predict(meta, adapted, x)


def _right(outputs: Float[Array, "rows ways"], query: Batch) -> Float[Array, " rows"]:
    """1 where the answer is right, 0 where it is wrong, and NaN where the row does not count."""
    right = (jnp.argmax(outputs, axis=1) == query.y).astype(jnp.float32)
    return jnp.where(query.weight > 0, right, jnp.nan)


def _mapped(one: Callable[[PyTree, Array], Array], setting: Setting) -> np.ndarray:
    """One task after the other, in one compiled program."""
    every = jax.jit(lambda data: jax.lax.map(partial(one, data), jnp.arange(setting.n_tasks)), compiler_options=light())
    return np.asarray(every(setting.tasks.data))


def _summary(right: dict[str, np.ndarray], eps: tuple[float, ...], setting: Setting) -> Robustness:
    attacks = [name for name in right if name != CLEAN]
    right[WORST] = np.min([right[name] for name in attacks], axis=0) if attacks else right[CLEAN]
    score = lambda values: summarize(setting.shots, setting.steps, np.nanmean(values, axis=1))
    scores = {name: [score(values[:, n]) for n in range(len(eps))] for name, values in right.items()}
    return Robustness(eps, scores, right)


def _check(setting: Setting, eps: tuple[float, ...]) -> None:
    if setting.n_tasks < 2:
        raise FewstepError(f"n_tasks is {setting.n_tasks}. An interval needs at least 2 tasks.")
    if not eps or min(eps) < 0 or not np.isfinite(eps).all():
        raise FewstepError(f"eps is {eps}. Give one radius or more, 0 or more each, such as 0.03.")
