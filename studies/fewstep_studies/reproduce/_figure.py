"""A figure: panels that stand in a page as SVG, side by side where there is room; the whole as PNG, its data as CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup, escape

from fewstep.files import write_text, writing
from fewstep.pages import figure, link, panels, svg

# Colors of Okabe and Ito, which color-blind people can tell apart, with the yellow made dark enough to read.
PALETTE = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#a08300", "#0072b2", "#cc79a7", "#d55e00", "#7f7f7f")
DASHES = ("-", "--", "-.", ":")
_PANEL = (4.8, 3.6)
_COLUMNS = 3
if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = object  # matplotlib is loaded when a figure is drawn

Points = list[tuple[Any, ...]]  # names, then numbers
Look = dict[str, Any]  # keywords of matplotlib
Looks = Mapping[str, Look]
Panel = Callable[[Axes], None]  # draws on the axes it is given


class Figure(NamedTuple):
    """What a figure shows: its `panels`; `columns` and `data` are its numbers."""

    name: str
    title: str
    caption: str
    panels: list[Panel]
    columns: tuple[str, ...]
    data: Points


def style(number: int) -> Look:
    """The color and dash of the line with that number, the same in all figures."""
    return {"color": PALETTE[number % len(PALETTE)], "linestyle": DASHES[number // len(PALETTE) % len(DASHES)]}


def write_figure(folder: Path, plot: Figure, mark: str) -> Markup:
    """Writes the PNG and the CSV into a folder, and returns the figure as HTML; `mark` says that a run is not full."""
    text = io.StringIO()
    size = mark.split(":")[0] or "full"
    csv.writer(text, lineterminator="\n").writerows([(*plot.columns, "run"), *((*row, size) for row in plot.data)])
    write_text(folder / f"{plot.name}.csv", text.getvalue())
    _write_png(folder / f"{plot.name}.png", plot, mark)
    links = [link(f"{folder.name}/{plot.name}.{kind}", kind.upper()) for kind in ("png", "csv")]
    caption = Markup(" ").join([escape(plot.caption), *links])
    return panels(plot.name, plot.title, [_svg(panel, plot.title) for panel in plot.panels], caption)


def _svg(panel: Panel, title: str) -> Markup:
    with figure(1, 1, _PANEL) as (drawn, axes):
        panel(axes[0, 0])
        return svg(drawn, title)


def _write_png(path: Path, plot: Figure, mark: str) -> None:
    columns = min(_COLUMNS, len(plot.panels))
    rows = -(-len(plot.panels) // columns)
    with figure(rows, columns, (_PANEL[0] * columns, _PANEL[1] * rows + 0.4)) as (drawn, axes):
        for ax, panel in zip(axes.flat, plot.panels, strict=False):
            panel(ax)
        for ax in axes.flat[len(plot.panels) :]:
            ax.set_axis_off()
        drawn.suptitle(plot.title + (f"\n{mark}" if mark else ""), fontsize=10)
        with writing(path):
            drawn.savefig(path, dpi=110, metadata={"Software": None})


def keys(rows: Points) -> list[str]:
    """What the rows begin with, each once."""
    return list(dict.fromkeys(row[0] for row in rows))


def rows_of(rows: Points, key: object) -> Points:
    """The rows that begin with a key, without it."""
    return [row[1:] for row in rows if row[0] == key]


def columns(rows: Points) -> list[np.ndarray]:
    """The columns as arrays, NaN for nothing."""
    return [np.asarray([np.nan if x is None else x for x in column], float) for column in zip(*rows, strict=True)]


def in_pairs(labels: Iterable[str]) -> Looks:
    """Looks by which two lines that follow each other share a color, the second of them dashed."""
    return {label: style(n // 2) | {"linestyle": ("-", "--")[n % 2]} for n, label in enumerate(labels)}


def lines(
    title: str, rows: Points, xlabel: str, ylabel: str = "mean squared error", *, labels: Sequence[str] = (),
    looks: Looks | None = None, xscale: str = "linear", yscale: str = "linear", factor: float = 1.0, bars: bool = False,
    marker: str = "o",
) -> Panel:  # fmt: skip
    """Lines with bands, or bars, of rows: label, x, y, and half the band's width or its two ends.

    Of the `labels`, one without a point is marked as diverged; `factor` multiplies y.
    """

    def panel(ax: Axes) -> None:
        for number, label in enumerate(labels or keys(rows)):
            look: Look = {"marker": marker, "markersize": 3} | (looks[label] if looks else style(number))
            if not (mine := rows_of(rows, label)):
                ax.plot([], [], label=f"{label} (diverged)", **look)
                continue
            x, y, low, high = _band(mine, factor, yscale)
            if bars:
                ax.errorbar(x, y, (y - low, high - y), label=label, capsize=2, **look)
            else:
                ax.plot(x, y, label=label, **look)
                ax.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)
        ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
        _finish(ax, rows, xscale, yscale)

    return panel


def _band(rows: Points, factor: float, yscale: str) -> tuple[np.ndarray, ...]:
    x, y, *spread = columns(rows)
    half = spread[0] if len(spread) == 1 else np.zeros_like(y)
    low, high = spread if len(spread) == 2 else (y - half, y + half)
    if yscale == "log":
        low = np.maximum(low, y / 10)  # a band that reaches 0 has no place on a logarithmic axis
    return x, factor * y, factor * low, factor * high


def _finish(ax: Axes, rows: Points, xscale: str, yscale: str) -> None:
    """The scales, if there is a point to stand on them, and a small legend below, if there is a line."""
    if any(np.isfinite(np.asarray(line.get_ydata(), float)).any() for line in ax.lines):
        ax.set_yscale(yscale)
        if xscale != "symlog":
            ax.set_xscale(xscale)
    if xscale == "symlog":
        ax.set_xscale("symlog", linthresh=1)
        ax.set(xticks=(0, 1, 10, 100), xticklabels=("0", "1", "10", "100"), xlim=(-0.2, 130))
        if yscale == "log" and (values := [row[2] for row in rows if row[2]]):  # what diverges leaves at the top
            ax.set_ylim(min(values) / 2, 5 * max((row[2] for row in rows if row[1] == 0 and row[2]), default=1.0))
    if labels := ax.get_legend_handles_labels()[1]:
        columns = min(3, max(1, 75 // (max(map(len, labels)) + 5)))  # as many as fit below a panel
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns, fontsize=7, columnspacing=1)


def bars_with_dots(title: str, rows: Points, xlabel: str, ylabel: str) -> Panel:
    """A bar for the mean of the values of each x, which are dots beside it; of shares from 0 to 1."""

    def panel(ax: Axes) -> None:
        for place, at in enumerate(keys(rows)):
            values = [row[-1] for row in rows_of(rows, at)]
            ax.bar(place, np.mean(values), width=0.6, color=PALETTE[2])
            ax.scatter(np.linspace(place - 0.15, place + 0.15, len(values)), values, color=PALETTE[0], s=8, zorder=3)
            ax.text(place, 1.03, f"{np.mean(values):.2f}", ha="center", fontsize=8)
        ax.set_xticks(range(len(keys(rows))), [str(at) for at in keys(rows)])
        ax.set(xlabel=xlabel, ylabel=ylabel, ylim=(0, 1.12))
        ax.set_title(title, fontsize=9)

    return panel


def beside_the_paper(title: str, rows: Points, xlabel: str) -> Panel:
    """Ours filled and the paper's open, of rows: label, mean, half, published mean, half."""

    def panel(ax: Axes) -> None:
        for place, (_, mean, half, published, interval) in enumerate(reversed(rows)):
            ax.errorbar(published, place - 0.15, xerr=interval, fmt="o", mfc="white", color="#868e96", markersize=5)
            if mean is not None:
                ax.errorbar(mean, place + 0.15, xerr=half, fmt="o", color="#0072b2", markersize=5)
        ax.set_yticks(range(len(rows)), [row[0] for row in reversed(rows)])
        ax.set(title=title, xlabel=xlabel, xlim=(0, None))

    return panel


def picture(
    title: str, image: np.ndarray, *, line: float | None = None, look: Look | None = None, **axes: object
) -> Panel:
    """An image, from white for 0 to black for 1 unless it is to look otherwise; with a horizontal line."""

    def panel(ax: Axes) -> None:
        plain: Look = {"cmap": "Grays", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
        ax.imshow(image, **(plain | (look or {})))
        if line is not None:
            ax.axhline(line, color="#0072b2", linewidth=0.8)
        ax.set(title=title, **axes)

    return panel
