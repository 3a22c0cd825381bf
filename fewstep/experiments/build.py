"""From an experiment to what it names: rule, network, tasks, learner, optimizer."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import optax
from jax.sharding import Mesh

from fewstep import rules
from fewstep._episode import Tasks
from fewstep._errors import FewstepError, unknown
from fewstep._learner import Learner
from fewstep._network import Network, flatten
from fewstep._outer import Outer
from fewstep._rule import Rule, chain
from fewstep.experiments.experiment import Experiment, option
from fewstep.experiments.learners import make_learner, refuse_for_learners, trained_ways, training_tasks
from fewstep.learners import FITTING, LEARNERS, PROCESSES
from fewstep.machine import distributed, layout
from fewstep.machine.layout import Layout
from fewstep.outers import first_order, refuse_without_signal, reptile, unrolled
from fewstep.problems.problem import Problem, problem

ALIASES = {"fomaml": "maml", "reptile": "maml"}


_SAMPLES = 5


class Built(NamedTuple):
    """What an experiment names, ready to run. `make(ways, norm=None)` is its learner for tasks of other sizes."""

    experiment: Experiment
    network: Network
    rule: Rule | None
    make: Callable[..., Learner]
    problem: Problem
    optimizer: optax.GradientTransformation
    outer: Outer

    @property
    def learner(self) -> Learner:
        """The learner as it is trained."""
        return self.make(trained_ways(self.experiment))

    def check_data(self) -> None:
        """Reads the images or rows of every split, so that what is wrong with them is said before a long training."""
        given = self.experiment
        for split, ways in (("train", None), ("validation", given.validation_ways), ("test", None)):
            self.problem.tasks(given.shots, given.queries, split, ways)
        if given.validation_ways:
            self.make(given.validation_ways)

    @property
    def steps(self) -> bool:
        """Whether it learns a task by inner steps."""
        return self.rule is not None or self.experiment.method == "finetune"

    @property
    def samples(self) -> int:
        """How many samples of a rule's masks answer together for a table; of a method without masks, one."""
        masked = self.rule is not None and any("mask" in part.name for part in self.rule.links)
        return _SAMPLES if masked else 1

    @property
    def training(self) -> Tasks:
        """What it is trained on."""
        return training_tasks(self.experiment, self.problem)


def build(experiment: Experiment, asked: Problem | None = None) -> Built:
    """Builds an experiment, on its own tasks or on those `asked` for. Raises `FewstepError` for unknown names and for
    options that do not apply."""
    asked = problem(experiment) if asked is None else asked
    if experiment.full_context and experiment.method != "matching":
        raise FewstepError("`full_context` does not apply: only matching has it. Leave it out.")
    if experiment.method in LEARNERS:
        refuse_for_learners(experiment)
        rule, outer_name = None, "unrolled"
    else:
        rule, outer_name = _rule(experiment), _outer_name(experiment)
        _refuse_idle_options(experiment, rule, outer_name)
    _check_clips(experiment)
    network, steps = asked.network(trained_ways(experiment)), inner_steps(experiment)
    learner = partial(make_learner, experiment, asked, rule, steps)
    if outer_name == "reptile" and rule is not None:  # said now, not when a folder has been made and tracing begins
        meta = jax.eval_shape(lambda: learner(trained_ways(experiment)).init(jax.random.key(0)))
        movable = lambda m: {p: leaf for p, leaf in flatten(m["weights"]).items() if p not in network.frozen}
        fast = jax.eval_shape(lambda m: rule.start(network.layers, m, movable(m)), meta)
        refuse_without_signal(meta, fast)
    outers = {"unrolled": unrolled, "first_order": first_order, "reptile": reptile(steps, experiment.minibatch or 10)}
    return Built(experiment, network, rule, learner, asked, _optimizer(experiment), outers[outer_name])


def inner_steps(experiment: Experiment) -> int:
    """The inner steps in training, the method's own number if none was given."""
    if experiment.inner_steps is not None:
        return experiment.inner_steps
    return 5 if _is_reptile(experiment) or experiment.has_table else 1


def lay_out(experiment: Experiment, chosen: Layout | None = None) -> Layout:
    """The devices of a training, made before JAX starts, and its chunk: by rule of thumb, unless they are `chosen`. Of
    several processes, all start JAX here."""
    asked = experiment.devices is not None
    chosen = chosen or layout.choose(experiment, inner_steps(experiment))
    places = distributed.agreed_layout(chosen, asked=asked)
    places = places._replace(devices=layout.prepare(places, asked=asked))
    if distributed.several():
        jax.devices()  # it waits for the others, so none may be waiting for something else
    return places


def make_mesh(devices: int) -> Mesh | None:
    """A mesh of that many devices with one axis, `tasks`; none for a single device. Of several processes, each has as
    many."""
    if distributed.several():
        return distributed.make_mesh(devices)
    if devices == 1:
        return None
    found = jax.devices()
    if len(found) < devices:
        raise FewstepError(
            f"`devices` is {devices} and JAX sees {len(found)}. Use `devices={len(found)}`, or start a new process."
        )
    return Mesh(np.asarray(found[:devices]), ("tasks",))


def _is_reptile(experiment: Experiment) -> bool:
    return "reptile" in (experiment.method, experiment.outer)


def _outer_name(experiment: Experiment) -> str:
    own = {"fomaml": "first_order", "reptile": "reptile"}.get(experiment.method)
    if own and experiment.outer not in (None, own):
        raise FewstepError(
            f"{experiment.method} takes its outer gradient by {own}; `outer={experiment.outer!r}` contradicts."
        )
    return own or experiment.outer or "unrolled"


def inner_rate(experiment: Experiment) -> float:
    """The step size on a task, or where learned rates begin."""
    usual = 2.0 if experiment.tasks == "omniglot" else 0.4 if experiment.has_images else 0.01
    usual = 0.01 if _steps_by_adam(experiment) else 0.03 if experiment.has_table else usual
    return usual if experiment.inner_lr is None else experiment.inner_lr


def _steps_by_adam(experiment: Experiment) -> bool:
    return (experiment.inner_optimizer or ("adam" if _is_reptile(experiment) else "sgd")) == "adam"


def _rule(experiment: Experiment) -> Rule:
    """`mtnet`, or names joined by `+`: a rule first or not, then links."""
    names = [name.replace("-", "_") for name in experiment.method.split("+")]
    adam, lr = _steps_by_adam(experiment), inner_rate(experiment)
    masks = {name: getattr(experiment, name) for name in ("temperature", "draw")}
    parts: list[Rule] = []
    for number, name in enumerate(names):
        known = {**rules.LINKS, **(rules.RULES if number == 0 else {}), **(ALIASES if len(names) == 1 else {})}
        if name not in known:
            raise unknown("method" if number == 0 else "link", name, {**known, **dict.fromkeys(LEARNERS)})
        factory = (rules.RULES | rules.LINKS)[ALIASES.get(name, name)]
        takes = inspect.signature(factory).parameters
        given = {key: value for key, value in masks.items() if key in takes and value is not None}
        if "start" in takes and (experiment.inner_lr is not None or experiment.has_images or experiment.has_table):
            given["start"] = lr
        made = factory(**given)
        parts += [part for part in (made.links or (made,)) if part.name != "sgd"]
    paced = any(part.sets_step_size for part in parts)
    return chain(_inner_step(experiment, 1.0 if paced else lr, adam=adam), *parts)


def _inner_step(experiment: Experiment, lr: float, *, adam: bool) -> Rule:
    """How a gradient on a task becomes a step, before masks and rates."""
    clip = 5.0 if experiment.has_table and experiment.inner_clip is None and not adam else experiment.inner_clip
    plain = optax.adam(lr, b1=0.0) if adam else optax.sgd(lr)
    if clip is not None:
        return rules.optimizer(optax.chain(optax.clip_by_global_norm(clip), plain))
    return rules.optimizer(plain) if adam else rules.sgd(lr)


def _refuse_idle_options(experiment: Experiment, rule: Rule, outer: str) -> None:
    """An option that does not apply is an error, never ignored."""
    masked = any(part.name in ("mask", "full_mask") for part in rule.links)
    idle = {
        "temperature": not masked and f"{experiment.method} has no mask",
        "draw": not masked and f"{experiment.method} has no mask",
        "minibatch": outer != "reptile" and "only reptile takes minibatches of a task",
    }
    for name, reason in idle.items():
        if reason and getattr(experiment, name) is not None:
            raise FewstepError(f"{option(name)} does not apply: {reason}. Leave it out.")


def _check_clips(experiment: Experiment) -> None:
    if experiment.clip_value is not None and experiment.clip_norm is not None:
        raise FewstepError("`clip_value` and `clip_norm` are both given. Keep one.")


def _optimizer(experiment: Experiment) -> optax.GradientTransformation:
    plain = _is_reptile(experiment)
    name = experiment.outer_optimizer or ("sgd" if plain else "adam")
    usual = 1.0 if plain else 2e-3 if experiment.has_images else 1e-3
    usual = FITTING.rate if experiment.method in PROCESSES and experiment.has_table else usual
    lr = usual if experiment.outer_lr is None else experiment.outer_lr
    rate = {
        "constant": lambda: lr,
        "linear": lambda: optax.linear_schedule(lr, 0.0, experiment.steps),
        "cosine": lambda: optax.cosine_decay_schedule(lr, max(experiment.steps, 1)),
    }[schedule(experiment)]()
    clip = optax.identity()
    if experiment.clip_value is not None:
        clip = optax.clip(experiment.clip_value)
    if (norm := _clip_norm(experiment)) is not None:
        clip = optax.clip_by_global_norm(norm)
    return optax.chain(clip, optax.adam(rate) if name == "adam" else optax.sgd(rate))


def _clip_norm(experiment: Experiment) -> float | None:
    usual = 10.0 if experiment.has_table and experiment.clip_value is None else None
    return usual if experiment.clip_norm is None else experiment.clip_norm


def plans_for_its_steps(experiment: Experiment) -> bool:
    """Whether the outer step size depends on the number of steps, so that raising it later changes the past."""
    return schedule(experiment) != "constant"


def schedule(experiment: Experiment) -> str:
    """How the outer step size falls, the method's and the tasks' own way if none was given."""
    cosine = experiment.has_images or experiment.has_table
    usual = "linear" if _is_reptile(experiment) else "cosine" if cosine else "constant"
    return experiment.schedule or usual
