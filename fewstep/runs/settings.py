"""The settings of an experiment as a file keeps them, and how two of them differ."""

import dataclasses
import hashlib
import json
from collections.abc import Callable

from fewstep.experiments import Experiment, plans_for_its_steps
from fewstep.files import JSON
from fewstep.problems import Value, Values

_DIGEST = "sha256:"
_LONG = 200  # characters from which a checkpoint keeps the digest of a value, such as the split of 1,000 tasks


def as_stored(value: object) -> JSON:
    """The value as it comes back from a JSON file: tuples are lists there."""
    return json.loads(json.dumps(value))


def differences(
    there: Values, here: Values, name: Callable[[str], str] = str, without: tuple[str, ...] = ()
) -> list[str]:
    """How settings in a file differ from those at hand, in words; a setting that one of them lacks is `None`."""
    there, here = as_stored(there), as_stored(here)
    return [
        f"{name(key)} is {there.get(key)} there and {here.get(key)} here"
        for key in {**here, **there}
        if there.get(key) != here.get(key) and key not in without
    ]


def completed(there: Values, experiment: Experiment) -> dict[str, JSON]:
    """The fingerprint in a file that an earlier version wrote: an option that came later has its own default, and one
    that takes several values now may have had one."""
    values, here = dict(there), fingerprint(experiment)
    for group in experiment.groups:
        for field in dataclasses.fields(group):
            if field.name in here and _has_default(field):
                own = values.setdefault(field.name, as_stored(field.default))
                if isinstance(own, str) and isinstance(here[field.name], list):
                    values[field.name] = [own]
    return values


def _has_default(field: "dataclasses.Field[Value]") -> bool:
    return field.default is not dataclasses.MISSING


def fingerprint(experiment: Experiment) -> dict[str, JSON]:
    """What a checkpoint keeps of the experiment that made it.

    The number of steps counts only where the outer step size is planned over it; otherwise it can be raised.
    """
    settings = experiment.settings()
    if not plans_for_its_steps(experiment):
        settings.pop("steps")
    return {name: _short(value) for name, value in as_stored(settings).items()}


def _short(value: object) -> JSON:
    text = json.dumps(value, sort_keys=True)
    return value if len(text) <= _LONG else f"{_DIGEST}{hashlib.sha256(text.encode()).hexdigest()}"
