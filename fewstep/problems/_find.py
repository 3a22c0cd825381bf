"""From the name of tasks to their kind: one of ours, an installed package's, or a user's own."""

import dataclasses
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType

from fewstep._errors import FewstepError, unknown
from fewstep.files import find_object
from fewstep.problems._kind import Kind, Problem
from fewstep.problems._options import Options, Value, Values
from fewstep.problems._own import is_own
from fewstep.problems._points import MEMBERS, Perceptron, PointSizes, read_points, write_points
from fewstep.problems.curves import CURVES, OWN_CURVES, draw_curves
from fewstep.problems.images import IMAGES_KIND
from fewstep.problems.tables import TABLES
from fewstep.problems.text import TEXT

KINDS: tuple[Kind, ...] = (CURVES, IMAGES_KIND, TABLES, TEXT)
_GROUP = "fewstep.tasks"


def kind(name: str, problem: Callable[[str, Options, Options], Problem], **parts: object) -> Kind:
    """A kind of your own: `problem(tasks, options, network)` and whatever differs from rows of numbers.

    **Arguments:** any other field of `Kind` by name; what is left out is as for points of curves: CSV or npz files for
    `read`, the columns x and prediction for `write`, a perceptron as network, and 10 shots and queries.

    **Returns:** a `Kind`. Name it on the command line as FILE.py:NAME.
    """
    usual: dict[str, Value] = {
        "tasks": (), "options": lambda tasks: PointSizes, "network": lambda tasks: Perceptron,
        "defaults": lambda tasks, method, given: {}, "read": read_points, "write": write_points, "draw": draw_curves,
        "members": MEMBERS,
    }  # fmt: skip
    for part in parts.keys() - {field.name for field in dataclasses.fields(Kind)}:
        raise unknown(f"part of the kind {name!r}:", part, [field.name for field in dataclasses.fields(Kind)])
    return Kind(name=name, problem=problem, **(usual | parts))


def kind_of(tasks: str, given: Values = MappingProxyType({})) -> Kind:
    """The kind of some tasks, with the options that are given: an `encoder` makes another one of images. Raises
    `FewstepError` for a name that none answers to."""
    return _named(tasks).behind(str(given.get("encoder", "")))


def _named(tasks: str) -> Kind:
    for each in KINDS:
        if any(tasks.startswith(name) if name.endswith(":") else tasks == name for name in each.tasks):
            return each
    if is_own(tasks) or tasks in entry_points(group=_GROUP).names:
        own = find_object("tasks", tasks)
        return own if isinstance(own, Kind) else OWN_CURVES
    if Path(tasks).suffix.lower() in (".csv", ".parquet", ".pq"):
        raise FewstepError(f"The tasks are {tasks!r}. For a table, write table:{tasks}.")
    names = [name for each in KINDS for name in each.tasks if name != "table"]
    raise unknown("tasks", tasks, [f"{name}PATH" if name.endswith(":") else name for name in names])
