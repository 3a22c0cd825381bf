"""The page: what the construction does, for someone who has not read the paper; then the numbers and the pictures."""

import html
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fewstep.files import write_text
from fewstep.pages import page, table
from fewstep.reproduce._figure import Figure, write_figure
from fewstep.reproduce._report import made_by

TITLE = "One gradient step can express any learner"
HEAD = ["target", "what", "measured", "the proof says", ""]
_TEXT = (
    "A learner takes examples (x, y) and a new x*, and gives an answer: nearest neighbors, ridge regression, or "
    "something nobody has a name for. Finn and Levine proved that one network followed by one step of plain gradient "
    "descent can be any such learner, as nearly as one likes. This page does not prove it. It builds the network, "
    "takes the step with the same code that trains every other model here, and looks.",
    "The difficulty: the network sees the examples only through a gradient, and a gradient step changes a layer by one "
    "outer product an example. How can that carry a whole data set to the answer? The trick is depth. The box of x is "
    "cut into J bins and that of x* into L, and the network has a linear layer for every pair of bins. The layers "
    "multiply to matrices that let the forward signal of x, the backward signal of y and the later signal of x* meet "
    "in exactly the one layer of their pair, and that layer owns one slot of the output.",
    "So each layer is made of three blocks. Tilde carries x before the step. Bar is empty before the step. Check holds "
    "a switch at 0. The output begins as a plain sum, so that the loss sends y back into bar and check, and nowhere "
    "else. The step then does two things: it writes y into the layers, from tilde to bar, and it turns the switch. "
    "Once the switch is on, the same network reads its input as x*. What was written answers in one slot: its place "
    "tells the bins of x and x*, its size tells y. Reading that out and giving the target's answer is a matter of a "
    "table, or of an ordinary trained perceptron. What is lost is only where in its bin a point lay, and with more "
    "bins that vanishes.",
)  # fmt: skip


def write(folder: Path, result: dict[str, Any], figures: list[Figure], mark: str) -> Path:
    """Writes `report.html` and the figures."""
    parts = [f"<h1>{TITLE}</h1>", *([f"<p class=mark>{html.escape(mark.capitalize())}.</p>"] if mark else [])]
    parts += [f"<p class=note>{html.escape(text)}</p>" for text in _TEXT]
    parts += [write_figure(folder / "figures", figure, mark) for figure in figures]
    parts += ["<h2>What the proof says, and what was measured</h2>", table(HEAD, table_rows(result["rows"]))]
    parts += [f"<p class=note>{html.escape(result['protocol'])}</p>", made_by(result)]
    write_text(folder / "report.html", page(TITLE, map(Markup, parts)))
    return folder / "report.html"


def table_rows(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of the result as text."""
    return [[row["method"], row["metric"], f"{row['mean']:.3g}", row["published"], row["verdict"]] for row in rows]
