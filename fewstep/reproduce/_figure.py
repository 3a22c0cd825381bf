"""A figure: panels that stand in a page as SVG, side by side where there is room; the whole as PNG, its data as CSV."""

import csv
import html
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fewstep.files import write_text, writing
from fewstep.reports.drawing import figure, svg

# Colors of Okabe and Ito, which color-blind people can tell apart, with the yellow made dark enough to read.
PALETTE = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#a08300", "#0072b2", "#cc79a7", "#d55e00", "#7f7f7f")
DASHES = ("-", "--", "-.", ":")
_PANEL = (4.8, 3.6)
_COLUMNS = 3


Panel = Callable[[Any], None]  # draws on the axes it is given


class Figure(NamedTuple):
    """What a figure shows: its `panels`; `columns` and `data` are its numbers."""

    name: str
    title: str
    caption: str
    panels: list[Panel]
    columns: tuple[str, ...]
    data: list[tuple[Any, ...]]


def style(number: int) -> dict[str, Any]:
    """The color and dash of the line with that number, the same in all figures."""
    return {"color": PALETTE[number % len(PALETTE)], "linestyle": DASHES[number // len(PALETTE) % len(DASHES)]}


def write_figure(folder: Path, made: Figure, mark: str) -> str:
    """Writes the PNG and the CSV into a folder, and returns the figure as HTML; `mark` says that a run is not full."""
    text = io.StringIO()
    size = mark.split(":")[0] or "full"
    csv.writer(text, lineterminator="\n").writerows([(*made.columns, "run"), *((*row, size) for row in made.data)])
    write_text(folder / f"{made.name}.csv", text.getvalue())
    _write_png(folder / f"{made.name}.png", made, mark)
    drawings = "".join(f"<div>{_svg(panel, made.title)}</div>" for panel in made.panels)
    shape = "panels" if len(made.panels) > 1 else "panel"
    links = " ".join(f'<a href="{folder.name}/{made.name}.{kind}">{kind.upper()}</a>' for kind in ("png", "csv"))
    return (
        f'<figure id="{made.name}"><h2>{html.escape(made.title)}</h2><div class={shape}>{drawings}</div>'
        f"<figcaption>{html.escape(made.caption)} {links}</figcaption></figure>"
    )


def _svg(panel: Panel, title: str) -> str:
    with figure(1, 1, _PANEL) as (drawn, axes):
        panel(axes[0, 0])
        return svg(drawn, title)


def _write_png(path: Path, made: Figure, mark: str) -> None:
    columns = min(_COLUMNS, len(made.panels))
    rows = -(-len(made.panels) // columns)
    with figure(rows, columns, (_PANEL[0] * columns, _PANEL[1] * rows + 0.4)) as (drawn, axes):
        for ax, panel in zip(axes.flat, made.panels, strict=False):
            panel(ax)
        for ax in axes.flat[len(made.panels) :]:
            ax.set_axis_off()
        drawn.suptitle(made.title + (f"\n{mark}" if mark else ""), fontsize=10)
        with writing(path):
            drawn.savefig(path, dpi=110, metadata={"Software": None})
