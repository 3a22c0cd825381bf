"""Progress on stderr: a bar on a terminal, a line every ten seconds elsewhere."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from fewstep.cli._show import say
from fewstep.machine.meter import Meter, time_left
from fewstep.runs import Progress
from fewstep.training import Row

_LINE_SECONDS = 10.0
_OfCells = Callable[[Sequence[Any]], Callable[[int], Progress]]


@contextmanager
def show_progress(title: str) -> Iterator[Progress]:
    """Step, rate, time left and loss: a bar on a terminal, a line every ten seconds elsewhere."""
    console = Console(stderr=True)
    if not _has_bar(console):
        yield _lines(title)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Bar(*columns, TextColumn("{task.fields[loss]}"), console=console) as bar:
        yield _on_bar(bar, title)


def _on_bar(bar: Bar, title: str) -> Progress:
    task, meter = bar.add_task(title, total=None, rate="compiling", loss=""), Meter()

    total = 0

    def begin(first: int, last: int) -> None:
        nonlocal total
        total = last
        bar.update(task, completed=first, total=last)

    def step(number: int, row: Row | None) -> None:
        bar.update(task, completed=number, rate=_pace(meter, number, total))
        if row:
            bar.update(task, loss=f"loss {_mean(row):.4g}")

    return Progress(begin, step, lambda message: bar.console.print(message, highlight=False))


def _lines(title: str) -> Progress:
    meter, last = Meter(), [0.0, 0]

    def begin(first: int, total: int) -> None:
        last[1] = total
        if first < total:
            say(f"{title}: step {first} of {total}, compiling")

    def step(number: int, row: Row | None) -> None:
        pace, now = _pace(meter, number, int(last[1])), time.monotonic()
        if row and now - last[0] > _LINE_SECONDS:
            last[0] = now
            say(f"{title}: step {number} of {last[1]}, {pace}, loss {_mean(row):.4g}")

    return Progress(begin, step, say)


@contextmanager
def show_grid(title: str, budget: float | None = None) -> Iterator[tuple[_OfCells, Callable[[str], None]]]:
    """Progress over many trainings: which one, its step and rate, and the time left for all of them together.

    Yields `cells(cells)`, which gives the progress of each by its number, and a function that says a remark.
    """
    console = Console(stderr=True)
    if not _has_bar(console):
        yield (lambda cells: partial(_of_cell, _Grid(title, cells, budget), _say_seldom(), say)), say
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Bar(*columns, TextColumn("{task.fields[state]}"), console=console) as bar:
        task = bar.add_task(title, total=1.0, state="")
        draw = lambda grid, label, state: bar.update(task, description=label, completed=grid.share, state=state)
        remark = lambda message: bar.console.print(message, highlight=False)
        yield (lambda cells: partial(_of_cell, _Grid(title, cells, budget), draw, remark)), remark


def _of_cell(grid: "_Grid", draw: Callable[..., None], remark: Callable[[str], None], number: int) -> Progress:
    cell, meter = grid.cells[number], Meter()
    label = f"{grid.title} {number + 1}/{len(grid.cells)} {cell.name}"

    def begin(first: int, last: int) -> None:
        grid.begin(number, first)
        draw(grid, label, f"step {first} of {last}, compiling")

    def step(done: int, row: Row | None) -> None:
        grid.reach(number, done)
        state = f"step {done} of {cell.plan.length}, {_rate(meter, done)}, {grid.rest}"
        draw(grid, label, state + (f", loss {_mean(row):.4g}" if row else ""))

    return Progress(begin, step, remark)


def _say_seldom() -> Callable[..., None]:
    last = [-_LINE_SECONDS]

    def draw(grid: "_Grid", label: str, state: str) -> None:
        if time.monotonic() - last[0] > _LINE_SECONDS or state.endswith("compiling"):
            last[0] = time.monotonic()
            say(f"{label}: {state}")

    return draw


class _Grid:
    """How much of a grid is done, and how long the rest will take, by the tasks drawn so far."""

    def __init__(self, title: str, cells: Sequence[Any], budget: float | None = None) -> None:
        self.title, self.cells, self.start, self.budget = title, cells, time.monotonic(), budget
        self.position, self.offset = 0.0, 0.0

    @property
    def work(self) -> list[int]:
        """The effort of each cell; with a budget of time all cells are alike."""
        if self.budget is not None:
            return [1_000_000] * len(self.cells)
        return [max(1, cell.plan.work) for cell in self.cells]

    def _done(self, number: int, step: int) -> float:
        return sum(self.work[:number]) + self.work[number] * step / max(1, self.cells[number].plan.length)

    def begin(self, number: int, first: int) -> None:
        """Cells that were found finished, and steps of an earlier process, are not work of this one."""
        before = self._done(number, first)
        self.offset += before - self.position
        self.position = before

    def reach(self, number: int, step: int) -> None:
        """Notes the step that a cell has reached."""
        self.position = self._done(number, step)

    @property
    def share(self) -> float:
        """The share of the work that is done."""
        return self.position / sum(self.work)

    @property
    def rest(self) -> str:
        """The time left; not shown before a fiftieth of a cell is done, while compiling is nearly all there was."""
        own = self.position - self.offset
        if own < min(self.work) / 50:
            return "time unknown"
        seconds = (sum(self.work) - self.position) * (time.monotonic() - self.start) / own
        return f"{time_left(seconds)} in all"


def _has_bar(console: Console) -> bool:
    """Whether a bar can move there: on a terminal that takes escape sequences."""
    return console.is_terminal and not console.is_dumb_terminal


def _pace(meter: Meter, number: int, total: int) -> str:
    """The rate, and the time left as soon as there is a rate."""
    rate = _rate(meter, number)
    return f"{rate}, {time_left((total - number) / meter.value)}" if meter.value else rate


def _rate(meter: Meter, number: int) -> str:
    meter(number)
    value = meter.value or 0.0
    return f"{value:,.0f} steps/s" if value >= 10 else f"{value:.2f} steps/s"


def _mean(row: Row) -> float:
    losses = [loss for loss in row.loss if math.isfinite(loss)]
    return sum(losses) / len(losses) if losses else math.nan
