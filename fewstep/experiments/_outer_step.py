"""From an experiment to its outer step: how the outer gradient is taken, and what is made of it."""

import inspect

import optax
from jaxtyping import PyTree

from fewstep._errors import FewstepError
from fewstep._outer import Outer
from fewstep.experiments._methods import Method
from fewstep.experiments.experiment import Experiment
from fewstep.files import function_of
from fewstep.outers import OUTERS, robust
from fewstep.problems import Value
from fewstep.training import TrainState, average_of, averaging


def outer_of(experiment: Experiment, method: Method) -> Outer:
    """How the outer gradient of an experiment is taken; where it asks for robustness, of attacked queries."""
    outer = _plain_outer(experiment, method)
    if not experiment.has("robust") or experiment.robust == "no":
        return outer
    return robust(experiment.eps, experiment.robust, by=outer)


def _plain_outer(experiment: Experiment, method: Method) -> Outer:
    if not experiment.has("outer"):
        return OUTERS["unrolled"]()
    name = experiment.outer
    if method.outer and name != method.outer:
        raise FewstepError(f"{method.name} takes its outer gradient by {method.outer}; `outer={name!r}` contradicts.")
    if name not in OUTERS:
        return function_of("outer", experiment.located(name), "(learner)", dict.fromkeys(OUTERS))
    takes = inspect.signature(OUTERS[name]).parameters
    options = {option: _located(experiment, experiment.value(option)) for option in takes if experiment.has(option)}
    return OUTERS[name](**(options | ({"steps": experiment.inner_steps} if "steps" in takes else {})))


def _located(experiment: Experiment, value: Value) -> Value:
    return experiment.located(value) if isinstance(value, str) else value


def optimizer_of(experiment: Experiment) -> optax.GradientTransformation:
    """The outer optimizer of an experiment, with its schedule, clip and moving average."""
    if not experiment.has("outer_lr"):  # nothing is trained by outer steps
        return optax.sgd(0.0)
    if experiment.has("keep") and experiment.keep == "average" and not experiment.ema:
        raise FewstepError("`keep` is 'average', and `ema` is 0: no moving average is kept. Give `ema=0.999` too.")
    lr, steps = experiment.outer_lr, experiment.schedule_steps or experiment.steps
    rate = {
        "constant": lambda: lr,
        "linear": lambda: optax.linear_schedule(lr, 0.0, steps),
        "cosine": lambda: optax.cosine_decay_schedule(lr, max(steps, 1)),
    }[experiment.schedule]()
    clip = optax.identity()
    if experiment.clip_value > 0:
        clip = optax.clip(experiment.clip_value)
    elif experiment.clip_norm > 0:
        clip = optax.clip_by_global_norm(experiment.clip_norm)
    plain = optax.chain(clip, optax.adam(rate) if experiment.outer_optimizer == "adam" else optax.sgd(rate))
    return averaging(plain, experiment.ema) if experiment.ema else plain


def moving_average(state: TrainState) -> PyTree:
    """The moving average of the meta-parameters, if one was kept."""
    average = average_of(state)
    if average is None:
        raise FewstepError("No moving average was kept: `ema` is 0. Train with it, such as `ema=0.999`.")
    return average


def plans_for_its_steps(experiment: Experiment) -> bool:
    """Whether the outer step size depends on the number of steps, so that raising it later changes the past."""
    return experiment.has("schedule") and experiment.schedule != "constant"
