"""Files that are written whole or not at all."""

import contextlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

from fewstep.files._disk import writing

# What JSON holds, as it is read. With a union that contains itself, readers would have to prove every level; they make
# records (NamedTuples) of it where it comes in instead, and say what is damaged if that fails.
JSON: TypeAlias = Any


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write into, which takes its name, in place of an older one, only when all is written.

    What goes wrong leaves the older file as it was. Raises `FewstepError` if the disk refuses.
    """
    new = path.with_name(f"{path.name}.{os.getpid()}.new")  # two processes may write the same file
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with new.open("wb") as file:
                yield file
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)


def finite(value: object) -> JSON:
    """The value with null for numbers that JSON does not have: infinity and NaN."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file, in place of an older one."""
    write_text(path, json.dumps(finite(value), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a text file, in place of an older one."""
    with new_file(path) as file:
        file.write(text.encode())


def read_json(path: Path) -> JSON:
    """What a JSON file holds, or nothing if it is missing or not whole."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
