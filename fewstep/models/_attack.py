"""Attacks a trained model on unseen tasks."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from fewstep._errors import FewstepError, unknown
from fewstep.attacks import (
    ATTACKS,
    STANDARD,
    THOROUGH,
    Attack,
    Budget,
    Check,
    Robustness,
    Setting,
    attack_queries,
    attack_supports,
    check_learner,
    check_result,
    pgd,
    square,
)
from fewstep.models._model import Model

ENSEMBLES = {"standard": STANDARD, "thorough": THOROUGH}
# Attacks that may poison: they raise an objective that they are made with.
POISONS: dict[str, Callable[..., Attack]] = {
    "pgd": lambda objective: pgd(20, objective=objective), "square": lambda objective: square(500, objective=objective),
}  # fmt: skip


class Assault(NamedTuple):
    """How a model is attacked: `attacks` by name, of queries or supports, with several radii; of a support only a
    `share` of each class."""

    attacks: tuple[str, ...] = ("standard",)
    eps: tuple[float, ...] = (8 / 255,)
    on: Literal["query", "support"] = "query"
    share: float = 1.0
    shots: int | None = None
    ways: int | None = None
    queries: int = 5
    steps: int | None = None
    n_tasks: int = 100
    split: str = "test"
    seed: int = 0


class Attacked(NamedTuple):
    """Accuracies under attack, and whether they can be believed."""

    robustness: Robustness
    checks: list[Check]


def attack_model(model: Model, assault: Assault, say: Callable[[str], None] = lambda message: None) -> Attacked:
    """Attacks the queries, or the supports, of unseen tasks. Queries are answered each for itself, by the statistics of
    the support; the parameters are those of the model's first seed, and masks are drawn once per task.

    Example::

        attack_model(model, Assault(("pgd", "square"), (2 / 255, 8 / 255))).robustness.scores["worst"]
    """
    problem, experiment = model.problem, model.experiment
    if problem.ways is None or problem.ends is None:
        raise FewstepError(
            f"{experiment.tasks} has no classes of images, whose values have two ends, and attacks need both. Attack a "
            "run on omniglot, cifar-fs or folder:PATH, or call fewstep.attacks with bounds of your own."
        )
    if assault.on == "support" and (assault.queries < 2 or not 0 < assault.share <= 1):
        raise FewstepError(
            f"`queries` is {assault.queries} and `share` is {assault.share}. A poisoned support takes 2 queries of "
            "each class or more, half of them to evaluate on, and a share above 0, at most 1."
        )
    if assault.on == "support":
        makers = {name: _known(name, POISONS) for name in assault.attacks}
    else:
        attacks = named_attacks(assault.attacks)
    shots, ways = assault.shots or experiment.shots, assault.ways or problem.ways
    setting = Setting(
        problem.tasks(shots, assault.queries, assault.split, ways), shots,
        (model.steps if assault.steps is None else assault.steps) if model.built.steps else 0, assault.n_tasks,
        assault.seed,
    )  # fmt: skip
    learner, meta, box = model.learner(ways), next(iter(model.finite.values())), Budget(0.0, *problem.ends)
    if assault.on == "support":
        found = attack_supports(learner, meta, setting, makers, box, assault.eps, share=assault.share, say=say)
        return Attacked(found, [])
    checks = check_learner(learner, meta, setting, box)
    found = attack_queries(learner, meta, setting, attacks, box, assault.eps, say=say)
    return Attacked(found, checks + check_result(found, attacks))


def named_attacks(names: tuple[str, ...]) -> dict[str, Attack]:
    """Attacks by name; `standard` and `thorough` are several."""
    made: dict[str, Attack] = {}
    for name in names:
        if name in ENSEMBLES:
            made |= {part: make() for part, make in ENSEMBLES[name].items()}
        else:
            made[name] = _known(name, ATTACKS)()
    return made


def _known(name: str, some: dict[str, Callable[..., Attack]]) -> Callable[..., Attack]:
    if name not in some:
        raise unknown("attack", name, [*some, *(ENSEMBLES if some is ATTACKS else ())])
    return some[name]
