"""From folds to rows: means and deviations, published values beside them, and a verdict."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fewstep.reproduce.layerwise._methods import LABELS, Told
from fewstep.reproduce.layerwise._published import ALL, COLUMNS, Published
from fewstep.reproduce.layerwise._sets import Entry

JUDGED = tuple(name for name in COLUMNS if name != "seconds")
LEAST = 0.01  # a poster deviation that is printed as 0 is held to this
CLOSE = 0.05  # for the accuracy of W_s against the authors' later files
Row = dict[str, Any]


def summary(name: str, method: str, entry: Entry, folds: list[Told], wanted: int) -> Row:
    """One row of the table."""
    of_poster, later = (ALL.get((source, entry.poster or "", method)) for source in ("poster", "later"))
    row: Row = {
        "set": name, "method": method, "label": LABELS[method], "folds": len(folds),
        "timed": sum(told["seconds"] is not None for told in folds), "real": entry.real, "what": entry.what,
        "sigma": _sigma(method, folds), "L": _pair([told["layers"] for told in folds]),
        **{column: _pair([told[column] for told in folds]) for column in ("train", "test", "seconds")},
        "ours": _measured(folds, "ours"), "authors": _measured(folds, "authors"),
        "published": None if of_poster is None else _told(of_poster),
        "later": None if later is None else _told(later),
        "history": folds[0].get("history"), "stopped": [told.get("stopped") for told in folds],
    }  # fmt: skip
    return row | {"verdict": _verdict(row, of_poster, later) if len(folds) >= max(10, wanted) else "not judged"}


def columns(row: Row) -> dict[str, Sequence[float] | None]:
    """A row by the poster's columns, measured as the authors do."""
    return {name: row[name] if name in row else row["authors"].get(name) for name in COLUMNS}


def _verdict(row: Row, of_poster: Published | None, later: Published | None) -> str:
    """ISM is held to the poster in every column but time; W_s in test accuracy to the authors' later files."""
    if row["method"] == "ws" and later is not None:
        return "meets" if abs(row["test"][0] - later.values["test"][0]) <= CLOSE else "misses"
    if row["method"] != "ism" or of_poster is None:
        return ""
    judged = {name: pair for name, pair in columns(row).items() if name in JUDGED and pair}
    misses = [name for name, pair in judged.items() if not _near(pair, of_poster, name)]
    return f"misses {', '.join(misses)}" if misses else "meets"


def _sigma(method: str, folds: list[Told]) -> tuple[float, float] | None:
    """Mean and deviation; of W_s the smallest of all folds, as the authors tell it."""
    told = [one["sigma"] for one in folds]
    return (min(told), 0.0) if method == "ws" else _pair(told)


def _near(pair: Sequence[float], published: Published, name: str) -> bool:
    mean, spread = published.values[name]
    return round(abs(pair[0] - mean), 4) <= max(2 * spread, LEAST)


def _measured(folds: list[Told], kind: str) -> dict[str, tuple[float, float] | None]:
    names = folds[0].get(kind, {}).keys()
    return {name: _pair([told[kind][name] for told in folds]) for name in names}


def _pair(values: list[Any]) -> tuple[float, float] | None:
    """Mean and deviation over the folds that have it, that of a population, as the authors'."""
    told = [value for value in values if value is not None]
    return (float(np.mean(told)), float(np.std(told))) if told else None


def _told(published: Published) -> dict[str, Any]:
    return {"sigma": published.sigma, **published.values}
