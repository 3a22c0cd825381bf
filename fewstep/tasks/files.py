"""Support and query sets from files: CSV with or without a line of names, or npz."""

import csv
from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError
from fewstep.tasks._batch import rows


def read_support(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """x and y of a file: the last column of a CSV is y; an npz has both by name."""
    if path.suffix == ".npz":
        x, y = _arrays(path, "x", "y")
        return x, y
    table = _table(path)
    if table.shape[1] < 2:
        raise FewstepError(f"{path} has {table.shape[1]} column. A support set needs columns of x and, last, one of y.")
    return table[:, :-1], table[:, -1:]


def read_query(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """x of a file, with rows of a given shape."""
    x = _arrays(path, "x")[0] if path.suffix == ".npz" else _table(path)
    if x.shape[1:] != shape:
        raise FewstepError(
            f"{path} has rows of {x.shape[1]} columns and the support's x has {shape[0]}. Give the query the same "
            "columns of x, without y."
        )
    return x


def _arrays(path: Path, *names: str) -> tuple[np.ndarray, ...]:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            by_name = {name: file[name] for name in names if name in file}
    except (OSError, ValueError, EOFError) as error:
        raise FewstepError(f"Cannot read {path}: {_reason(error)}.") from None
    if missing := [name for name in names if name not in by_name]:
        raise FewstepError(
            f"{path} has no array named {' and '.join(missing)}. Save it with numpy.savez(path, x=..., y=...)."
        )
    arrays = [rows(f"{name} of {path}", by_name[name]).astype(np.float32) for name in names]
    return tuple(array[:, None] if array.ndim == 1 else array for array in arrays)


def _table(path: Path) -> np.ndarray:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [
                (number, line) for number, line in enumerate(csv.reader(file), 1) if any(cell.strip() for cell in line)
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FewstepError(f"Cannot read {path}: {_reason(error)}.") from None
    if lines and not any(_is_number(cell) for cell in lines[0][1]):
        lines = lines[1:]
    if not lines:
        raise FewstepError(f"{path} has no rows of numbers. A task needs at least one example.")
    width = len(lines[0][1])
    for number, line in lines:
        bad = next((cell for cell in line if not _is_number(cell)), None)
        if bad is not None or len(line) != width:
            what = f"holds {bad!r}, which is not a number" if bad is not None else f"has {len(line)} cells, not {width}"
            raise FewstepError(
                f"Line {number} of {path} {what}. Every line needs {width} numbers, separated by commas."
            )
    return rows(str(path), [[float(cell) for cell in line] for _, line in lines]).astype(np.float32)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    return getattr(error, "strerror", None) or str(error).splitlines()[0]
