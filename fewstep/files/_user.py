"""Functions of the user's own, named on the command line as FILE.py:FUNCTION."""

import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, ParamSpec, TypeVar

from fewstep._errors import FewstepError, unknown

_HINT = "Write it, or give another name."
# The groups of entry points, behind `fewstep.`, that offer each kind of name.
_GROUPS = {
    "method": ("rules", "learners"), "link": ("rules",), "tasks": ("tasks",), "network": ("networks",),
    "loss": ("losses",), "outer": ("outers",), "encoder": ("encoders",), "score": ("losses",),
}  # fmt: skip
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def function_of(kind: str, text: str, signature: str, known: Mapping[str, object] = MappingProxyType({})) -> Callable:
    """The function of a name: see `find_object`."""
    path, _, name = text.rpartition(":")
    function = find_object(kind, text, known, f"Write one: def {name}{signature}: ...")
    if not callable(function):
        kind = type(function).__name__
        raise FewstepError(f"{name} in {path} is a {kind}. Write a function: def {name}{signature}: ...")
    return function


def find_object(kind: str, text: str, known: Mapping[str, object] = MappingProxyType({}), hint: str = _HINT) -> Any:
    """What a name names: one of the `known`, an installed package's entry point, or FILE.py:NAME."""
    if text in known:
        return known[text]
    groups = _GROUPS.get(kind, ())
    entries = {entry.name: entry for group in groups for entry in entry_points(group=f"fewstep.{group}")}
    return entries[text].load() if text in entries else object_of(kind, text, (*known, *entries), hint)


def object_of(kind: str, text: str, known: Iterable[str] = (), hint: str = _HINT) -> Any:
    """What `path/to/file.py:name` names, function or value; `hint` says what to do if the file has no such name."""
    path, _, name = text.rpartition(":")
    if not path.endswith(".py") or not name.isidentifier():
        raise unknown(kind, text, (*known, "your.py:function"))
    if not Path(path).is_file():
        raise FewstepError(f"There is no file {path}. Give the path of a Python file, then a colon and a name in it.")
    file = Path(path).resolve()
    module = _module(file, file.stat().st_mtime_ns)
    if not hasattr(module, name):
        raise FewstepError(f"{path} has no {name}. {hint}")
    return getattr(module, name)


def file_of(text: str) -> Path | None:
    """The file of FILE.py:NAME; nothing for another name."""
    path, _, name = text.rpartition(":")
    return Path(path) if path.endswith(".py") and name.isidentifier() else None


def called(
    what: str, function: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
) -> Result:
    """What a user's function gives; an error in it is reported in one line."""
    try:
        return function(*args, **options)
    except FewstepError:
        raise
    except Exception as error:
        first = str(error).strip().splitlines() or [""]
        raise FewstepError(f"{what} fails with {type(error).__name__}: {first[0]}") from error


@cache
def _module(path: Path, changed: int) -> ModuleType:
    """The module of a file, run once as long as the file is the same: run again, its classes would be others."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)  # dataclasses and Flax look their module up by its name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FewstepError(f"{path} cannot be run: {type(error).__name__}: {error}.") from error
    return module
