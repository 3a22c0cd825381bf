"""`auto` where tasks are drawn anew: several methods are trained, and the best on the validation tasks is kept.

Each member is an experiment of its own on the same tasks: the options of the tasks are those of `auto`, of the rest
those that were given. What it keeps are its best parameters on the validation tasks, by which it is compared.
"""

import dataclasses
from typing import TYPE_CHECKING, NoReturn

from fewstep._errors import FewstepError
from fewstep.problems import Value

if TYPE_CHECKING:
    from fewstep.experiments.experiment import Experiment


def parts(experiment: "Experiment") -> dict[str, dict[str, Value]]:
    """The options of each member by its method."""
    members = experiment.members or experiment.kind.members
    if experiment.method in members:
        raise FewstepError(f"`members` has {experiment.method} itself. Leave it out.")
    settings, tasks = experiment.settings(), experiment.groups[0]
    names = {field.name for field in dataclasses.fields(tasks)} | experiment.differing().keys()
    shared = {name: settings[name] for name in names} | {
        "seed": experiment.seed, "seeds": experiment.member_seeds, "keep": "best",
    }  # fmt: skip
    return dict.fromkeys(members, shared)


def refuse(*parts: object) -> NoReturn:
    """It has no learner: what answers in the end is that of a member."""
    raise FewstepError(
        "auto keeps the best of several methods on such tasks, each a training of its own. That takes a run: "
        "create_run and train_run of fewstep.runs. In memory, train one of them."
    )
