"""Where weights come from: installed packages and the user's files. Nothing is downloaded."""

import contextlib
import hashlib
import importlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fewstep._errors import FewstepError

_VERSION = 1  # increase it when the rows of an encoder change
INSTALL = "pip install 'fewstep[encoders]'"


def need(name: str, module: str) -> Any:
    """A module of an optional package. Raises `FewstepError` with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        raise FewstepError(f"The encoder {name} needs the package {missing}: {INSTALL}.") from None


def in_package(name: str, package: str, project: str, *path: str, install: str = INSTALL) -> Path:
    """A file of an installed package, which is not imported for it; `install` are the commands that bring it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FewstepError(f"The weights of {name} are in the package {project}, which is not installed: {install}.")
    file = Path(spec.origin).parent.joinpath(*path)
    if not file.exists():
        raise FewstepError(f"The package {project} has no {'/'.join(path)}. Install it again: {install}.")
    return file


def read_safetensors(name: str, path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors file."""
    with _opened(name, path) as file:
        return {array: file.get_tensor(array) for array in list(file.keys())}


def array_names(name: str, path: Path) -> list[str]:
    """The names of the arrays in a .safetensors file, of which no more is read."""
    with _opened(name, path) as file:
        return list(file.keys())


@contextlib.contextmanager
def _opened(name: str, path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise FewstepError(f"There is no file {path}. Give the path of a .safetensors file.")
    safe_open = need(name, "safetensors").safe_open
    try:
        with safe_open(path, "np") as file:
            yield file
    except Exception as error:  # damaged, or of a type that numpy does not have
        raise FewstepError(
            f"Cannot read {path}: {type(error).__name__}: {error}. Save the weights again, as float32."
        ) from None


def digest_of(paths: list[Path], settings: Mapping[str, object]) -> str:
    """One digest of files and settings."""
    total = hashlib.sha256(json.dumps({"version": _VERSION, **settings}, sort_keys=True).encode())
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:32]


def check_depth(name: str, depth: int, parts: int, what: str) -> None:
    """Raises `FewstepError` for a number of last blocks that the network does not have."""
    if not 0 <= depth <= parts:
        raise FewstepError(f"`encoder_depth={depth}`: {name} has {parts} {what}. Give 0 to {parts}.")
