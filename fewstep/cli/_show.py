"""What a person sees: messages and progress on stderr, results on stdout."""

import json
import math
import statistics
import sys
import time
from collections import deque
from collections.abc import Iterator
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
    print(json.dumps(_finite(result), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    """The value with null for numbers that JSON does not have: infinity and NaN."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(head: list[str], rows: list[list[Any]]) -> None:
    """A result for people."""
    made = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    console = Console(highlight=False)
    console.print(made, soft_wrap=not console.is_terminal)


@contextmanager
def show_progress(title: str) -> Iterator[Progress]:
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
    """Steps a second: the median of the last calls, so that a validation or a save in between does not show."""

    def __init__(self) -> None:
        self.last: tuple[float, int] | None = None
        self.rates: deque[float] = deque(maxlen=15)

    def __call__(self, number: int) -> str:
        now = time.monotonic()
        if self.last is not None:
            self.rates.append((number - self.last[1]) / max(now - self.last[0], 1e-9))
        self.last = (now, number)
        return f"{self.value:,.0f} steps/s" if self.value >= 10 else f"{self.value:.2f} steps/s"

    @property
    def value(self) -> float:
        return statistics.median(self.rates) if self.rates else 0.0


def _mean(row: Row) -> float:
    return sum(row.loss) / len(row.loss)


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
