"""Figure 4 of the universality paper: fine-tuned from MAML's start and from a random one, on 20 images."""

import dataclasses
from functools import partial
from typing import Any

from fewstep.reproduce import omniglot
from fewstep.reproduce._curves_of_images import figures as image_figures
from fewstep.reproduce._figure import Figure, style
from fewstep.reproduce._images import LEGEND, cost_rows, episode_pages
from fewstep.reproduce._rows import make_row
from fewstep.reproduce._study import Cell, Judged, Row, Scale, Study

WAYS = 20
STEPS = (0, 1, 5, 10, 20, 50, 100)
_WITHIN = 0.03
_AHEAD = 0.2


def cells(scale: Scale) -> list[Cell]:
    """MAML as in the Omniglot table, and the same network before any training."""
    ways = 5 if scale.quick else WAYS
    plain = next(c for c in omniglot.cells(scale._replace(shots=(1,))) if c.name == f"maml-{ways}way-1shot")
    trained = plain._replace(steps=STEPS, steps_at_test=STEPS, seen_too=True)
    random = dataclasses.replace(plain.experiment, steps=0)
    return [trained, trained._replace(name="random", label="random start", experiment=random)]


def rows(cells: list[Cell], judged: list[Judged]) -> list[Row]:
    """Accuracy on the support and on the query after each number of steps, transductive as in the papers."""
    made = [row for cell, found in zip(cells, judged, strict=True) for row in _rows(cell, found)]
    tested = {(row["method"], row["setting"]["inner steps"]): row["mean"] for row in made if row["on"] == "query"}
    best = max((v for (method, _), v in tested.items() if method == "MAML"), default=None)
    for row in made:
        if row["on"] == "query" and row["setting"]["inner steps"] == STEPS[-1] and best is not None:
            meets = row["mean"] >= best - _WITHIN if row["method"] == "MAML" else row["mean"] <= best - _AHEAD
            row["verdict"] = "meets" if meets else "misses"
    return made


def _rows(cell: Cell, judged: Judged) -> list[Row]:
    ways, shots, _ = cell.tests[0]
    made = []
    for on, scores in (("query", judged["errors"]), ("support", judged["seen"])):
        for found in (row for row in scores if row["transductive"]):
            setting = {"ways": ways, "shots": shots, "inner steps": found["inner_steps"], "on": f"the {on}"}
            row = make_row(cell, judged, found, metric="accuracy", setting=setting, published=None)
            made.append(row | {"cell": cell.name, "on": on, "steps": cell.experiment.steps})
    return made


def figures(cells: list[Cell], judged: list[Judged], speed: Judged) -> list[Figure]:
    """Accuracy against steps, on what was seen and on what was not; and MAML's training."""
    pairs = [(cell, found) for cell, found in zip(cells, judged, strict=True) if found["errors"]]
    data = [
        (row["method"], row["on"], row["setting"]["inner steps"], row["mean"], row["interval95"])
        for cell, found in pairs for row in _rows(cell, found)
    ]  # fmt: skip
    drawn = Figure(
        "random-start", "Figure 4: fine-tuning from MAML's start and from a random one",
        "Accuracy against gradient steps: solid on the query, dashed on the support that the steps were taken on.",
        [partial(_lines, data)], ("start", "on", "inner_steps", "accuracy", "interval95"), data,
    )  # fmt: skip
    trained = [(cell, found) for cell, found in zip(cells, judged, strict=True) if cell.experiment.steps]
    return [drawn, *image_figures([cell for cell, _ in trained], [found for _, found in trained], speed)[:1]]


def _lines(data: list[tuple[Any, ...]], ax: Any) -> None:
    for number, start in enumerate(dict.fromkeys(row[0] for row in data)):
        for on, dash in (("query", "-"), ("support", "--")):
            mine = [(row[2], 100 * row[3]) for row in data if row[:2] == (start, on)]
            look = style(number) | {"linestyle": dash, "marker": "o", "markersize": 3}
            ax.plot(
                *zip(*mine, strict=True), label=f"{start}, {'test' if on == 'query' else 'training'} images", **look
            )
    ax.set_xscale("symlog", linthresh=1)
    ax.set(xlabel="gradient steps", ylabel="accuracy in %", ylim=(0, 102))
    ax.legend(fontsize=7)


STUDY = Study(
    "random-start",
    "A random start: Figure 4 of the universality paper",
    "Omniglot, 20 ways and 1 shot, split maml; the network, the training of MAML (one inner step) and the step size "
    "are those of `fewstep reproduce omniglot`; the other start is the same network before any training. Both take up "
    "to 100 gradient steps on the 20 images of a task, normalized by the statistics of each batch; 100 test tasks.",
    "Finn & Levine, ICLR 2018, section 6.1. The paper draws the figure and prints no numbers: what is judged is that "
    "after 100 steps MAML's test accuracy is within 3 points of its best, and the random start's at least 20 below.",
    LEGEND,
    cells,
    rows,
    figures,
    cost=cost_rows,
    scale=Scale(seeds=1, steps=40_000, paper_steps=5_000, n_tasks=100, paper_tasks=100),
    quick=Scale(seeds=1, steps=100, n_tasks=50, quick=True, paper_steps=5_000),
    by_row=True,
    pages=episode_pages,
)
