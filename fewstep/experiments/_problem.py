"""From an experiment to its problem, on the network that it asks for."""

import dataclasses
from collections.abc import Callable

from fewstep.experiments.experiment import Experiment
from fewstep.problems import Options, Problem, Value


def make_problem(experiment: Experiment, *, network: Callable[..., object] | None = None) -> Problem:
    """The problem of an experiment."""
    tasks, options = experiment.located(experiment.tasks), experiment.kind_options
    return experiment.kind.problem(tasks, options, network_options(experiment, network))


@dataclasses.dataclass(frozen=True)
class _Network:
    """A network that was given as a function in Python, and its loss."""

    network: Callable[..., object]
    loss: str


def network_options(experiment: Experiment, network: Callable[..., object] | None = None) -> Options:
    """The network's options with the paths of a user's own files; the kind's own where the method has none. `network`
    may be a function in Python."""
    if network is not None:
        return _Network(network, network_options(experiment).loss)
    if not experiment.has("network"):
        return experiment.kind.network(experiment.tasks)()
    group = next(group for group in experiment.groups if "network" in group.__dataclass_fields__)
    own = {name: experiment.located(getattr(group, name)) for name in ("network", "loss") if hasattr(group, name)}
    group = dataclasses.replace(group, **own)
    return group if hasattr(group, "loss") else _WithLoss(group)


class _WithLoss:
    """A network's options with the usual loss, for a method that has one of its own."""

    loss = "usual"

    def __init__(self, group: Options):
        self._group = group

    def __getattr__(self, name: str) -> Value:
        return getattr(self._group, name)
