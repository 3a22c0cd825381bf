"""Pictures of adapted tables: curves of held-out tasks where one column runs, else predictions against the truth."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from markupsafe import Markup

from fewstep.pages import figure, heading, svg
from fewstep.problems._kind import Answer, Problem, Sketch
from fewstep.tables import Rows, Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Answering = Callable[..., Answer]


def draw_held_out(problem: Problem, sketches: list[Sketch], *, n_tasks: int = 6, seed: int = 0) -> list[Markup]:
    """For held-out tasks: the rows learned from, all others, and what each model predicts, with its interval."""
    assert problem.held_out is not None
    rows, schema = problem.held_out("test"), problem.details.schema
    count, along, shots = min(n_tasks, len(rows.names)), running(schema, rows), sketches[0].shots
    columns = min(3, count)
    with figure(-(-count // columns), columns, (11, 3.1 * -(-count // columns))) as (drawing, axes):
        for number, ax in enumerate(axes.flat[:count]):
            support = choose_rows(rows, number, shots, seed)
            for sketch in sketches:
                look = (sketch.name, sketch.color)
                if along is None:
                    _scatter(ax, sketch.answer, schema, rows.of(number), support, look)
                else:
                    draw_curve(ax, curve_of(sketch.answer, schema, rows, number, support, along), look)
            ax.set_title(rows.names[number], fontsize=9)
        for ax in axes.flat[count:]:
            ax.axis("off")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside upper center", ncols=4)
        picture = svg(drawing, "Held-out tasks: what was learned from, the rest, and the predictions")
    return [heading(f"Held-out tasks, learned from {shots} rows"), picture]


def running(schema: Schema, rows: Rows) -> int | None:
    """The place in x of the one number that runs along a task; nothing if there are several, or none, or classes."""
    if schema.classes:
        return None
    spread = np.stack([rows.of(number)[0].std(0) for number in range(min(20, len(rows.names)))])
    varies = np.flatnonzero((spread > 1e-6).any(0))
    of = dict(zip(_places(schema), schema.features, strict=True))
    single = len(varies) == 1 and int(varies[0]) in of and of[int(varies[0])].kind != "category"
    return int(varies[0]) if single else None


def choose_rows(rows: Rows, number: int, shots: int, seed: int) -> np.ndarray:
    """The rows of a task to learn from."""
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
    column = dict(zip(_places(schema), schema.features, strict=True))[along]
    grid = np.repeat(x[:1], points, axis=0)
    grid[:, along] = np.linspace(x[:, along].min(), x[:, along].max(), points)
    reply = answer((x[support], y[support]), grid)
    half = ((reply.high - reply.mean)[:, 0] * schema.target.scale).tolist() if reply.calibrated else None
    return Curve(
        rows.names[number], (column.name, schema.target.name), column.decode(x[:, along]).tolist(),
        schema.target.decode(y[:, 0]).tolist(), support.tolist(), column.decode(grid[:, along]).tolist(),
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


def _places(schema: Schema) -> list[int]:
    return [int(place) for place in np.cumsum([0, *(column.width for column in schema.features[:-1])])]
