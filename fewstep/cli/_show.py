"""What a person sees: messages on stderr, results on stdout."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from fewstep.runs.files import finite


def error(message: str) -> None:
    """A mistake, on stderr."""
    print(f"fewstep: {message}", file=sys.stderr)


def say(message: str) -> None:
    """A remark, on stderr, so that results stay clean."""
    print(message, file=sys.stderr)


def as_json(result: Any) -> None:
    """A result for machines."""
    print(json.dumps(finite(result), indent=2, allow_nan=False))


def table(head: list[str], rows: list[list[Any]]) -> None:
    """A result for people."""
    made = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    console = Console(highlight=False)
    console.print(made, soft_wrap=not console.is_terminal)


def scores_table(judged: dict[str, list[dict[str, Any]]]) -> None:
    """A table of scores, one line for each model, number of shots and number of inner steps."""
    several, spread = len(judged) > 1, any("seed_std" in row for rows in judged.values() for row in rows)
    metric = next(iter(judged.values()))[0]["metric"]
    head = ["shots", "inner steps", metric, "± 95 %", "tasks"]
    lines = [
        [
            *([name] if several else []), row["shots"], row["inner_steps"], f"{row['mean']:.4f}",
            f"{row['interval95']:.4f}", row["n_tasks"], *([f"{row.get('seed_std', 0):.4f}"] if spread else []),
        ]
        for name, rows in judged.items() for row in rows
    ]  # fmt: skip
    table([*(["model"] if several else []), *head, *(["std over seeds"] if spread else [])], lines)
