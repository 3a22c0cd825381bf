"""The comparison as tables of text: a line a method, a column for each set and number of points."""

from typing import Any

from fewstep.reproduce.curves._measure import SHOTS


def tables(result: dict[str, Any]) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Head and rows of the table of each set, by its name."""
    made = {}
    for name in dict.fromkeys(row["setting"]["set"] for row in result["rows"]):
        mine = [row for row in result["rows"] if row["setting"]["set"] == name]
        unit = mine[0]["setting"]["unit"]
        head = [f"{name}, {unit}", *(f"{shots} points" for shots in SHOTS), "in 90 % at 5", ""]
        lines = []
        for method in dict.fromkeys(row["method"] for row in mine):
            at = {row["setting"]["points"]: row for row in mine if row["method"] == method}
            star = "" if at[SHOTS[0]]["ours"] else " (baseline)"
            covered = at[5]["coverage90"]
            said = "; ".join(f"{shots}: {at[shots]['verdict']}" for shots in SHOTS if at[shots]["verdict"])
            cells = [_cell(at[s]) for s in SHOTS]
            lines.append([method + star, *cells, "" if covered is None else f"{100 * covered:.0f} %", said])
        made[name] = (head, lines)
    return made


def _cell(row: dict[str, Any]) -> str:
    if row["mean"] is None:
        return f"diverged on {row['diverged_tasks']} of {row['n_tasks']} tasks"
    return f"{row['mean']:.2f} ± {row['interval95']:.2f}"
