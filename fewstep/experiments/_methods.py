"""From METHOD to a `Method`: a rule or chain of links, an alias, a learner without inner gradient, or a user's own."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import optax
from jaxtyping import PyTree

from fewstep import learners, rules
from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep._learner import Learner, gradient_learner
from fewstep._rule import Rule, Stage, chain
from fewstep.experiments._fitting import Fitted, Say, TrainedMember, TrainMember
from fewstep.experiments._groups import InnerSteps
from fewstep.experiments._heads import LEARNER_METHODS, PICKS, narrow
from fewstep.experiments._start import map_start
from fewstep.files import called, function_of
from fewstep.problems import Kind, Problem, Value, Values, from_signature, is_own, without

if TYPE_CHECKING:
    from fewstep.experiments.build import Built
    from fewstep.experiments.experiment import Experiment

# What a method may have around its learner: a standard deviation for numbers.
AROUND: dict[str, Callable[..., Learner]] = {"laplace": learners.laplace}
ALIASES: dict[str, tuple[str, str]] = {"fomaml": ("maml", "first_order"), "reptile": ("maml", "reptile")}
# What keeps several inner steps from diverging: the norms of all inner gradients together, and of the outer one. The
# papers train without.
_INNER_NORMS, _OUTER_NORM = 100.0, 1.0
_REPTILE = {
    "inner_steps": 5, "inner_optimizer": "adam", "outer_optimizer": "sgd", "outer_lr": 1.0, "schedule": "linear",
    "clip_norm": 0.0,
}  # fmt: skip
_META_LSTM = {"inner_lr": 0.01, "outer": "first_order", "clip_norm": 0.25}

# A context takes larger steps than weights, and gets no signal through a network that begins near zero.
_USUAL: dict[str, Values] = {"cavia": {"inner_lr": 0.1, "init": "he"}}


class Method(NamedTuple):
    """What METHOD names.

    - `groups` are its options; `network` says whether it uses the kind's network, or only its features, and `loss`
      whether it minimizes the problem's loss;
    - `defaults(given)` are defaults that differ for it, `weak_defaults(given)` those that a kind's own come before;
    - `rule(experiment)` is the rule of its inner steps, for those that have one;
    - `learner(experiment, problem, rule, ways, norm)` makes it for tasks of so many classes;
    - `tasks(experiment, problem)` is what it is trained on; `check(problem)` refuses problems that it cannot learn, and
      `problem(problem)` is the problem as it takes it;
    - `steps` says that it learns a task by gradient steps;
    - `start(built, metas)` are better first meta-parameters of each seed, made of the training data without a gradient;
    - `fit(built, train, say)` makes its meta-parameters where that is not done by outer steps; `train(name, member)`
      trains one of its members, whose options `parts(experiment)` gives by their method. `again(trained)` are the
      options by which a training is repeated on other tasks, without validating;
    - `picks` says that nothing but its members is trained, of which the best on the validation tasks is kept.
    """

    name: str
    groups: tuple[type, ...]
    learner: Callable[..., Learner]
    rule: Callable[["Experiment"], Rule | None] = lambda experiment: None
    defaults: Callable[[Values], Values] = lambda given: {}
    tasks: Callable[["Experiment", Problem], Tasks] = lambda experiment, problem: problem.tasks(
        experiment.shots, experiment.queries
    )
    check: Callable[[str, Problem], None] = lambda tasks, problem: None
    problem: Callable[[Problem], Problem] = lambda problem: problem
    steps: bool = False
    network: bool = True
    loss: bool = True
    outer: str | None = None
    weak_defaults: Callable[[Values], Values] = lambda given: {}
    start: Callable[["Built", PyTree], PyTree] = map_start
    fit: Callable[["Built", TrainMember, Say], Fitted] | None = None
    parts: Callable[["Experiment"], dict[str, dict[str, Value]]] = lambda experiment: {}
    again: Callable[[TrainedMember], Values] = lambda trained: {
        "steps": max(1, trained.steps),
        "keep": "last",
        "patience": 0,
    }
    picks: bool = False

    @property
    def by_steps(self) -> bool:
        """Whether it is trained by outer steps."""
        return self.fit is None and not self.picks


def locate(text: str, folder: Path | None) -> str:
    """FILE.py:NAME with the file in a folder; anything else as it is."""
    return text if folder is None or not is_own(text) else str(folder / Path(text).name)


def method_of(text: str, folder: Path | None = None, kind: Kind | None = None) -> Method:
    """The method of a name, on a `kind` of tasks if that matters; a user's own files are in the `folder`, if one is
    given. Raises `FewstepError` for a name that nothing has."""
    learners = LEARNER_METHODS | (PICKS if kind is not None and kind.members else {})
    if text in learners:
        return Method(name=text, **learners[text])
    if around := [name for name in text.split("+") if name in AROUND]:
        return _with(around, text, folder)
    factories = _factories([locate(part, folder) for part in text.split("+")])
    if len(factories) == 1 and _is_learner(factories[0][1]):
        return _own_learner(text, factories[0][1])
    options = [from_signature(_slug(name), factory) for name, factory in factories]
    _, outer = ALIASES.get(text, (text, None))
    return Method(
        text, (_inner_steps(factories), *options), _rule_learner, partial(_rule, factories),
        partial(_defaults, text, outer), steps=True, outer=outer, weak_defaults=partial(_start, factories),
    )  # fmt: skip


def _with(around: list[str], text: str, folder: Path | None) -> Method:
    """A method with something around its learner."""
    rest = "+".join(name for name in text.split("+") if name not in AROUND)
    inner = method_of(rest, folder) if rest else None
    if inner is None or not inner.steps or len(around) > 1:
        raise FewstepError(f"{text}: {around[0]} goes once behind a method of gradient steps, as in maml+{around[0]}.")
    group = from_signature(around[0], AROUND[around[0]])

    def learner(experiment: "Experiment", *rest: Value) -> Learner:
        own = {field.name: experiment.value(field.name) for field in dataclasses.fields(group)}
        return AROUND[around[0]](inner.learner(experiment, *rest), experiment.inner_steps, **own)

    def check(tasks: str, problem: Problem) -> None:
        inner.check(tasks, problem)
        if problem.classes or problem.ways is not None:
            raise FewstepError(
                f"{around[0]} gives intervals of numbers, and {tasks} has classes, which have probabilities. Leave it "
                f"out: {rest}."
            )

    return inner._replace(name=text, groups=(*inner.groups, group), learner=learner, check=check)


def _inner_steps(factories: list[tuple[str, Callable[..., Rule]]]) -> type:
    """The options of the inner steps, without those of a step that a user's rule takes itself."""
    for name, factory in factories:
        if not is_own(name) or not _has_step(called(f"{name}()", factory)):
            continue
        group: type = InnerSteps
        for unused in {"inner_lr", "inner_optimizer", "inner_clip"} - {*inspect.signature(factory).parameters}:
            group = without(group, unused)
        return group
    return InnerSteps


def _slug(name: str) -> str:
    return name.rpartition(":")[2]


def _factories(names: list[str]) -> list[tuple[str, Callable[..., Rule]]]:
    """The factories of `mtnet`, or of the names of a chain: a rule first or not, then links."""
    factories = []
    for number, written in enumerate(names):
        name = written if is_own(written) else written.replace("-", "_")
        known: dict[str, Value] = {**rules.LINKS, **(rules.RULES if number == 0 else {})}
        aliases = {alias: known[rule] for alias, (rule, _) in ALIASES.items()} if len(names) == 1 else {}
        others = {**known, **aliases} if number else {**LEARNER_METHODS, **known, **aliases}
        if name in LEARNER_METHODS and name not in known:
            raise FewstepError(f"{name} is a learner without links. Name it alone: {name}.")
        what = "method" if number == 0 else "link"
        factories.append((name, function_of(what, name, "(*, option=1.0)", others)))
    return factories


def _defaults(name: str, outer: str | None, given: Values) -> Values:
    """Some methods have the settings of their papers, and Adam a step size of its own, without a clip."""
    usual: dict[str, Value] = {}
    names = name.replace("-", "_").split("+")
    if "mamlpp" in names:
        usual |= {"multi_step": given.get("steps", 60_000) // 10, "schedule": "cosine"}
    if "meta_lstm" in names:
        usual |= _META_LSTM
    if "reptile" in (outer, given.get("outer")):
        usual |= _REPTILE
    if given.get("inner_optimizer", usual.get("inner_optimizer")) == "adam":
        usual |= {"inner_lr": 0.01, "inner_clip": 0.0}
    return usual


def _start(factories: list[tuple[str, Callable[..., Rule]]], given: Values) -> Values:
    """The clips, where a rule's learned rates begin, if they do, its number of inner steps, if it depends on it, and
    what else differs for a link."""
    own: dict[str, Value] = {"clip_norm": _OUTER_NORM}
    for _, factory in factories[::-1]:
        for name, option in (("start", "inner_lr"), ("inner_steps", "inner_steps")):
            parameter = inspect.signature(factory).parameters.get(name)
            if parameter is not None and parameter.default is not parameter.empty:
                own[option] = parameter.default
    for name, _ in factories:
        own |= _USUAL.get(name, {})
    steps = given.get("inner_steps", own.get("inner_steps", InnerSteps.inner_steps))
    several = isinstance(steps, int) and steps > 1  # a single step is only as long as its gradient
    return own | {"inner_clip": round(_INNER_NORMS / steps, 2) if several else 0.0}


def _rule(factories: list[tuple[str, Callable[..., Rule]]], experiment: "Experiment") -> Rule:
    parts: list[Rule] = []
    # The network's options are not a rule's: both `anil` and `conv4` have a `head`.
    chosen = [group for group in experiment.groups if "network" not in group.__dataclass_fields__]
    has_step = False
    for name, factory in factories:
        takes = inspect.signature(factory).parameters
        own = {key: getattr(group, key) for group in chosen for key in takes if key in group.__dataclass_fields__}
        if "start" in takes:
            own["start"] = experiment.inner_lr
        rule = called(f"{name}({', '.join(own)})", partial(factory, **own))
        if not isinstance(rule, Rule):
            raise FewstepError(f"{name} returns a {type(rule).__name__}. Let it return a fewstep.Rule.")
        own_step = is_own(name) and _has_step(rule)
        parts += [part for part in (rule.links or (rule,)) if own_step or not part.fixed_step]
        has_step |= own_step
    if has_step:
        return chain(*parts) if len(parts) > 1 else parts[0]
    sets_step_size = any(part.sets_step_size for part in parts)
    return chain(_step(experiment, 1.0 if sets_step_size else experiment.inner_lr), *parts)


def _has_step(rule: object) -> bool:
    """Whether a user's rule says itself how a gradient becomes a step; one that was made without `link` always does."""
    if not isinstance(rule, Rule):
        return False
    return any(part.name == "rule" or part.stage is Stage.OPTIMIZE for part in rule.links or (rule,))


def _step(experiment: "Experiment", lr: Value) -> Rule:
    """How a gradient on a task becomes a step, before masks and rates."""
    if not isinstance(lr, int | float):
        raise FewstepError(f"`inner_lr` is {lr}. Only learned rates are drawn between two numbers; give one.")
    if experiment.inner_optimizer == "sgd":
        return rules.sgd(lr, clip=experiment.inner_clip)
    adam = optax.adam(lr, b1=0.0)
    clipped = optax.chain(rules.clip_norm(experiment.inner_clip), adam)
    return rules.optimizer(clipped if experiment.inner_clip > 0 else adam)


def _rule_learner(
    experiment: "Experiment", problem: Problem, rule: Rule, ways: int | None, norm: str | None
) -> Learner:
    """Gradient steps; a network that was trained with more outputs than a task has classes uses the first of them."""
    network = narrow(problem.network(problem.ways, norm), problem.ways, ways)
    return gradient_learner(
        network, rule, problem.loss, steps=experiment.inner_steps, remat=experiment.remat,
        multi_step=experiment.multi_step,
    )  # fmt: skip


def _is_learner(factory: object) -> bool:
    """Whether a user's factory makes a learner: it takes the network first, which that of a rule does not."""
    return callable(factory) and next(iter(inspect.signature(factory).parameters), "") == "network"


def _own_learner(text: str, factory: Callable[..., object]) -> Method:
    """A learner of the user's, `factory(network, loss, **options)`; by gradient steps if it has `inner_steps`."""
    group = from_signature(_slug(text), factory)
    names = [field.name for field in dataclasses.fields(group)]

    def learner(experiment: "Experiment", problem: Problem, rule: None, ways: int | None, norm: str | None) -> Learner:
        own = {name: experiment.value(name) for name in names}
        network = problem.network(ways, norm)
        made = called(f"{text}(network, loss)", partial(factory, **own), network, problem.loss)
        if not isinstance(made, Learner):
            raise FewstepError(f"{text} returns a {type(made).__name__}. Let it return a fewstep.Learner.")
        return made

    return Method(text, (group,), learner, steps="inner_steps" in names)
