"""Pictures of adapted tables: curves of held-out tasks where one column runs, else predictions against the truth."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from markupsafe import Markup

from fewstep.pages import COLORS, beside, figure, panels, svg
from fewstep.problems._kind import Answer, Problem, Sketch
from fewstep.problems._table_probes import Reliance, Share, places, probe
from fewstep.tables import Column, Rows, Schema, large_enough

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Answering = Callable[..., Answer]


_SIZE = (4.4, 3.1)  # of a picture that is readable on a phone
_COLUMNS = 15  # of a picture of what a model relies on


def draw_held_out(problem: Problem, sketches: list[Sketch], *, n_tasks: int = 6, seed: int = 0) -> list[Markup]:
    """For held-out tasks: where along a column the first model's intervals hold, what it relies on, and some tasks with
    the rows learned from, all others, and what each model predicts."""
    assert problem.held_out is not None
    schema, shots = problem.details.schema, sketches[0].shots
    rows = large_enough(problem.held_out("test"), shots, "test")
    along = running(schema, rows)
    supports = [choose_rows(rows, number, shots, seed) for number in range(len(rows.names))]
    probed = probe(sketches[0].answer, schema, rows, supports, seed)
    name = _column_at(schema, along).name if along is not None else probed.reliance.ranked[0]
    column = next(column for column in schema.features if column.name == name)
    pictures = [_draw_task(sketches, schema, rows, number, supports[number], along)
                for number in range(min(n_tasks, len(rows.names)))]  # fmt: skip
    learned = "1 row" if shots == 1 else f"{shots} rows"
    shares = [_draw_shares(column, probed.shares[name])] if probed.shares.get(name) else []
    return [
        beside([*shares, _draw_reliance(probed.reliance, schema)]),
        panels("tasks", f"Held-out tasks, learned from {learned}", pictures, _caption(schema, along)),
    ]


def _caption(schema: Schema, along: int | None) -> str:
    if along is not None:
        return "The rows learned from, the others, and the prediction with its 90% interval, where it has one."
    if schema.classes:
        return "The share of rows whose class is predicted right, of those that were not learned from."
    return f"Predictions of {schema.target.name} against the truth, at the rows that were not learned from."


def _draw_task(
    sketches: list[Sketch], schema: Schema, rows: Rows, number: int, support: np.ndarray, along: int | None
) -> Markup:  # fmt: skip
    """One held-out task and the predictions of each model."""
    with figure(1, 1, _SIZE) as (drawing, axes):
        ax = axes[0, 0]
        for sketch in sketches:
            look = (sketch.name, sketch.color)
            if along is None:
                _scatter(ax, sketch.answer, schema, rows.of(number), support, look)
            else:
                draw_curve(ax, curve_of(sketch.answer, schema, rows, number, support, along), look)
                if (column := _column_at(schema, along)).is_date and column.period is None:
                    _date_axis(ax)
        ax.set_title(rows.names[number], fontsize=9)
        ax.legend(fontsize=7)
        return svg(drawing, f"The held-out task {rows.names[number]}: what was learned from, the rest, the predictions")


def _draw_shares(column: Column, shares: list[Share]) -> Markup:
    """How often 90% intervals hold along a column."""
    name = column.name
    with figure(1, 1, _SIZE) as (drawing, axes):
        ax, at = axes[0, 0], [share.at for share in shares]
        ax.axhline(90, color="#868e96", linewidth=1, linestyle="--", label="90%")
        ax.plot(at, [100 * share.inside for share in shares], "o-", color=COLORS[0], label="inside the 90% interval")
        ax.set(xlabel=name, ylabel="true values inside, in %", ylim=(min(50, *(100 * s.inside for s in shares)), 101))
        if column.is_date:
            _date_axis(ax)
        elif all(share.at == int(share.at) for share in shares) and any(s.label != f"{s.at:.4g}" for s in shares):
            ax.set_xticks(at, [_short(share.label, 12) for share in shares])
        ax.legend(loc="lower right")
        picture = svg(drawing, f"The share of true values inside the 90% interval, along {name}")
    lowest = min(shares, key=lambda share: share.inside)
    text = (
        f"The share of true values inside the 90% intervals along {name}; lowest at about {lowest.label}, with "
        f"{lowest.inside:.0%} of {lowest.rows} rows."
    )
    return panels("coverage-along", f"Where the intervals hold: along {name}", [picture], text)


def _draw_reliance(reliance: Reliance, schema: Schema) -> Markup:
    """How much the error grows where a column is shuffled."""
    names = reliance.ranked[:_COLUMNS][::-1]
    values = [reliance.by_column[name] for name in names]
    means = np.asarray([each.mean() for each in values])
    ends = np.abs(np.asarray([np.quantile(each, (0.1, 0.9)) for each in values]).T - means)
    with figure(1, 1, (_SIZE[0], 1.0 + 0.24 * len(names))) as (drawing, axes):
        ax = axes[0, 0]
        ax.barh(range(len(names)), means, color=COLORS[0], alpha=0.35)
        ax.errorbar(means, range(len(names)), xerr=ends, fmt="o", ms=3, color=COLORS[0], linewidth=1)
        ax.axvline(0, color="#868e96", linewidth=0.8)
        ax.set_yticks(range(len(names)), [_short(name, 22) for name in names])
        ax.set(xlabel="growth of the log loss" if schema.classes else f"growth of the error of {schema.target.name}")
        picture = svg(drawing, "By how much the error grows when a column is shuffled")
    tasks, hidden = len(values[0]), len(reliance.by_column) - len(names)
    text = (
        "By how much the error of a held-out task grows when the cells of a column are shuffled among the rows that "
        f"are predicted; the mean over {tasks} tasks, and lines from the lowest to the highest tenth of them. Columns "
        "that say the same as another share its part."
    )
    if reliance.constant:
        text += f" Constant within every task, so that shuffling changes nothing: {', '.join(reliance.constant)}."
    if hidden:
        text += f" {hidden} more columns matter less."
    return panels("importance", "What the model relies on", [picture], text)


def _date_axis(ax: "Axes") -> None:
    """Lets an axis of days since 1970 show dates."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(maxticks=7)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _column_at(schema: Schema, place: int) -> Column:
    """The column of a place in a row of x."""
    return next(
        c for c, block in zip(schema.features, places(schema), strict=True) if block.start <= place < block.stop
    )


def running(schema: Schema, rows: Rows) -> int | None:
    """The place in x where the one column begins that runs along a task; nothing if there are several, or none, or
    classes."""
    if schema.classes:
        return None
    spread = np.stack([rows.of(number)[0].std(0) for number in range(min(20, len(rows.names)))])
    varies = np.any(spread > 1e-6, axis=0)
    pairs = zip(schema.places, schema.features, strict=True)
    some = [(place, column) for place, column in pairs if varies[place : place + column.width].any()]
    return some[0][0] if len(some) == 1 and not some[0][1].is_category else None


def choose_rows(rows: Rows, number: int, shots: int, seed: int) -> np.ndarray:
    """The rows of a task to learn from."""
    if rows.support != "random":
        return np.arange(min(shots, int(rows.counts[number])))
    return np.random.default_rng([seed, number]).permutation(int(rows.counts[number]))[:shots]


class Curve(NamedTuple):
    """A task along its one running column, in the user's units: all rows, which were learned from, and the prediction
    on a grid with half the width of its interval, if it has one."""

    task: str
    columns: tuple[str, str]
    x: list[float]
    y: list[float]
    support: list[int]
    at: list[float]
    middle: list[float]
    half: list[float] | None


def curve_of(
    answer: Answering, schema: Schema, rows: Rows, number: int, support: np.ndarray, along: int, points: int = 120
) -> Curve:
    """What a model makes of a task after learning from some of its rows; `answer((x, y), grid)` is the model."""
    x, y = rows.of(number)
    column = dict(zip(schema.places, schema.features, strict=True))[along]
    there = slice(along, along + column.width)
    numbers = lambda rows: column.decode(rows[:, there] if column.period is not None else rows[:, along])
    ran = numbers(x)
    at = np.linspace(ran.min(), ran.max(), points)
    grid = np.repeat(x[:1], points, axis=0)
    grid[:, there] = column.numbers(at)
    reply = answer((x[support], y[support]), grid)
    half = ((reply.high - reply.mean)[:, 0] * schema.target.scale).tolist() if reply.calibrated else None
    return Curve(
        rows.names[number], (column.name, schema.target.name), ran.tolist(),
        schema.target.decode(y[:, 0]).tolist(), support.tolist(), at.tolist(),
        schema.target.decode(reply.mean[:, 0]).tolist(), half,
    )  # fmt: skip


def draw_curve(ax: "Axes", curve: Curve, look: tuple[str, str]) -> None:
    """Draws a curve with its name and color."""
    (name, color), middle = look, np.asarray(curve.middle)
    ax.plot(curve.x, curve.y, ".", color="#adb5bd", ms=4, label="not seen")
    ax.plot(curve.at, middle, color=color, linewidth=1.6, label=name)
    if curve.half is not None:
        low, high = middle - curve.half, middle + curve.half
        ax.fill_between(curve.at, low, high, color=color, alpha=0.15, linewidth=0, label="90% interval")
    ax.plot(*np.asarray([(curve.x[n], curve.y[n]) for n in curve.support]).T, "ko", ms=4, label="learned from")
    ax.set(xlabel=curve.columns[0], ylabel=curve.columns[1])


def _scatter(
    ax: "Axes", answer: Answering, schema: Schema, task: tuple[np.ndarray, np.ndarray],
    support: np.ndarray, look: tuple[str, str],
) -> None:  # fmt: skip
    (x, y), (name, color) = task, look
    rest = np.setdiff1d(np.arange(len(x)), support)
    mean = answer((x[support], y[support]), x[rest]).mean
    if schema.classes:
        right = mean.argmax(1) == y[rest]
        ax.bar([name], [100 * right.mean()], color=color, label=name)
        ax.set(ylabel="accuracy in %", ylim=(0, 102))
        return
    true, predicted = schema.target.decode(y[rest, 0]), schema.target.decode(mean[:, 0])
    ax.plot(true, predicted, ".", color=color, ms=4, label=name)
    ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
    ax.plot(ends, ends, color="#adb5bd", linewidth=1, label="right")
    ax.set(xlabel=f"{schema.target.name}, true", ylabel="predicted")
