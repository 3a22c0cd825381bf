"""Files that are written whole or not at all."""

import json
import math
from pathlib import Path
from typing import Any

from fewstep.files._disk import writing


def finite(value: Any) -> Any:
    """The value with null for numbers that JSON does not have: infinity and NaN."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file, in place of an older one."""
    write_text(path, json.dumps(finite(value), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a text file, in place of an older one."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_text(text, encoding="utf-8", newline="")
        new.replace(path)


def read_json(path: Path) -> Any:
    """What a JSON file holds, or nothing if it is missing or not whole."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
