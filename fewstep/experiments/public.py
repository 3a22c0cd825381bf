"""What a report or card tells of an experiment: its settings other than the defaults, and nothing of where data are."""

import dataclasses
from pathlib import Path
from typing import Any

from fewstep.experiments.experiment import Experiment

_HIDDEN = ("method", "tasks", "classes", "schema", "source")


def settings(experiment: Experiment) -> dict[str, Any]:
    """The settings that are not the defaults, beside the method and the tasks; files by their names alone."""
    plain = dataclasses.asdict(Experiment(experiment.method, experiment.tasks))
    given = {name: value for name, value in dataclasses.asdict(experiment).items() if value != plain[name]}
    return {name: file_name(value) for name, value in given.items() if name not in _HIDDEN}


def public_tasks(tasks: str) -> str:
    """The tasks without the path of a folder or table, which is nobody's business."""
    kind, colon, path = tasks.partition(":")
    return f"{kind}:{Path(path).name}" if colon else tasks


def file_name(value: Any) -> Any:
    """A FILE.py:FUNCTION without its folder; anything else as it is."""
    return Path(value).name if isinstance(value, str) and ".py:" in value else value
