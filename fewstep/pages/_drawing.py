"""Figures without a screen: how they look, and as SVG text that stands in a page."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

if TYPE_CHECKING:
    import matplotlib.figure

COLORS = ("#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e")


@contextmanager
def figure(
    rows: int, columns: int, size: tuple[float, float], *, sharex: bool = False, sharey: bool = False
) -> Iterator[tuple["matplotlib.figure.Figure", np.ndarray]]:
    """A matplotlib figure and its array of axes, in our style."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context({
        "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
        "svg.fonttype": "path", "svg.hashsalt": "fewstep",
    }):  # fmt: skip
        plot = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(plot)
        yield plot, plot.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)


def svg(plot: "matplotlib.figure.Figure", title: str = "") -> Markup:
    """The figure as SVG; with a title, also for those who cannot see it."""
    text = io.StringIO()
    plot.savefig(text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    drawing = text.getvalue()[text.getvalue().index("<svg") :]
    name = Markup('<svg role="img" aria-label="{}"').format(title) if title else "<svg"
    return Markup(drawing.replace("<svg", name, 1))
