"""What a person sees: messages and progress on stderr, results on stdout."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from fewstep._train import Row
from fewstep.runs import Progress

_LINE_SECONDS = 10.0


def error(message: str) -> None:
    """A mistake, on stderr."""
    print(f"fewstep: {message}", file=sys.stderr)


def say(message: str) -> None:
    """A remark, on stderr, so that results stay clean."""
    print(message, file=sys.stderr)


def as_json(result: Any) -> None:
    """A result for machines."""
    print(json.dumps(result, indent=2))


def table(head: list[str], rows: list[list[Any]]) -> None:
    """A result for people."""
    made = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    console = Console(highlight=False)
    console.print(made, soft_wrap=not console.is_terminal)


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """Step, rate, time left and loss: a bar on a terminal, a line every ten seconds elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(title)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Bar(*columns, TimeRemainingColumn(), TextColumn("{task.fields[loss]}"), console=console) as bar:
        yield _on_bar(bar, title)


def _on_bar(bar: Bar, title: str) -> Progress:
    task, meter = bar.add_task(title, total=None, rate="compiling", loss=""), _Meter()

    def begin(first: int, last: int) -> None:
        bar.update(task, completed=first, total=last)

    def step(number: int, row: Row | None) -> None:
        bar.update(task, completed=number, rate=meter(number))
        if row:
            bar.update(task, loss=f"loss {_mean(row):.4g}")

    return Progress(begin, step, lambda message: bar.console.print(message, highlight=False))


def _lines(title: str) -> Progress:
    meter, last = _Meter(), [0.0, 0]

    def begin(first: int, total: int) -> None:
        last[1] = total
        if first < total:
            say(f"{title}: step {first} of {total}, compiling")

    def step(number: int, row: Row | None) -> None:
        rate, now = meter(number), time.monotonic()
        if row and now - last[0] > _LINE_SECONDS:
            last[0] = now
            left = (last[1] - number) / meter.value if meter.value else 0.0
            say(f"{title}: step {number} of {last[1]}, {rate}, {left:.0f} s left, loss {_mean(row):.4g}")

    return Progress(begin, step, say)


class _Meter:
    """Steps a second since the first call, which comes after compilation."""

    def __init__(self) -> None:
        self.start: tuple[float, int] | None = None
        self.value = 0.0

    def __call__(self, number: int) -> str:
        now = time.monotonic()
        if self.start is None:
            self.start = (now, number)
            return ""
        self.value = (number - self.start[1]) / max(now - self.start[0], 1e-9)
        return f"{self.value:,.0f} steps/s" if self.value >= 10 else f"{self.value:.2f} steps/s"


def _mean(row: Row) -> float:
    return sum(row.loss) / len(row.loss)


def scores(rows: list[dict[str, Any]], label: Callable[[dict[str, Any]], str] | None = None) -> None:
    """A table of scores."""
    spread = any("seed_std" in row for row in rows)
    head = [*(["model"] if label else []), "shots", "inner steps", rows[0]["metric"], "± 95 %", "tasks"]
    table(
        [*head, *(["std over seeds"] if spread else [])],
        [
            [
                *([label(row)] if label else []), row["shots"], row["inner_steps"], f"{row['mean']:.4f}",
                f"{row['interval95']:.4f}", row["n_tasks"], *([f"{row['seed_std']:.4f}"] if spread else []),
            ]
            for row in rows
        ],
    )  # fmt: skip
