"""Figure 2 of the universality paper: more gradient steps at test than in training, in range and out of it."""

import math
from typing import Any

from fewstep.reproduce._draw import titled, training_curves
from fewstep.reproduce._figure import Figure
from fewstep.reproduce._rows import make_row
from fewstep.reproduce._study import Cell, Judged, Row, Scale, Study

STEPS = (0, 1, 5, 10, 20, 50, 100)
IN_RANGE = "in range"
ELSEWHERE = (
    ("amplitude 5 to 10", {"amplitude": (5.0, 10.0)}),
    ("phase pi to 2 pi", {"phase": (math.pi, 2 * math.pi)}),
)
_TASKS: dict[str, Any] = {
    "frequency": (1.0, 1.0), "shots": 5, "queries": 10, "hidden": (100, 100), "bias_inputs": 10, "start": "he",
}  # fmt: skip
_INNER_LR = 0.001


def cells(scale: Scale) -> list[Cell]:
    """MAML with five inner steps; the network that is told the task, and takes none in training."""
    plan = {
        "maml": ("MAML", {"inner_steps": 5, "inner_lr": _INNER_LR}),
        "told": ("told the task", {"inner_steps": 0, "inner_lr": _INNER_LR, "conditioned": True}),
    }  # fmt: skip
    return [
        Cell(key, label, {}, scale.experiment("maml", "sinusoid", **_TASKS, **own), steps=STEPS, elsewhere=ELSEWHERE)
        for key, (label, own) in plan.items()
    ]


def rows(cells: list[Cell], judged: list[Judged]) -> list[Row]:
    """The error after 5, 50 and 100 steps, in range and out of it; after 50 MAML is not to be above its 5."""
    made = []
    for cell, found in zip(cells, judged, strict=True):
        for where, errors in _places(found).items():
            by_steps = {row["inner_steps"]: row for row in errors}
            for steps in (5, 50, 100):
                setting = {**cell.setting, "inner steps": steps, "tasks": where}
                row = make_row(cell, found, by_steps.get(steps, {}), metric="mse", setting=setting, published=None)
                if (cell.name, steps) == ("maml", 50) and row["mean"] is not None:
                    five = by_steps[5]["mean"]
                    row["verdict"] = "meets" if row["mean"] <= five else "misses"
                made.append(row)
    return made


def _places(found: Judged) -> dict[str, list[Row]]:
    return {IN_RANGE: found["errors"], **found.get("elsewhere", {})}


def figures(cells: list[Cell], judged: list[Judged], speed: Judged) -> list[Figure]:
    """Error against inner steps, a panel for each kind of tasks."""
    data = [
        (where, cell.label, row["inner_steps"], row["mean"], row["interval95"])
        for cell, found in zip(cells, judged, strict=True)
        for where, errors in _places(found).items() for row in errors
    ]  # fmt: skip
    places = list(dict.fromkeys(row[0] for row in data))
    labels = [cell.label for cell in cells]
    return [
        Figure(
            "more-steps", "Figure 2: more gradient steps",
            "Mean squared error on unseen sine waves against the gradient steps on the same 5 points; trained with 5. "
            "The band is the 95 % interval over tasks.",
            [titled(p, labels, [row[1:] for row in data if row[0] == p], "inner steps", "symlog") for p in places],
            ("tasks", "network", "inner_steps", "mean", "interval95"), data,
        ),
        training_curves({"5-shot sine waves": [(cell.label, f) for cell, f in zip(cells, judged, strict=True)]}),
    ]  # fmt: skip


STUDY = Study(
    "more-steps",
    "More gradient steps: Figure 2 of the universality paper",
    "Sine waves of amplitude 0.1 to 5 and phase 0 to pi, 5 points to learn from; perceptrons of two hidden layers of "
    "100 and 10 learned inputs. MAML is trained with five inner steps of size 0.001; the other network gets amplitude "
    "and phase beside x, and is fine-tuned at test by the same steps.",
    "Finn & Levine, ICLR 2018, section 6.1. The paper draws the figure and prints no numbers: what is judged is that "
    "MAML's error after 50 steps is not above its error after 5.",
    "The mean over seeds of the error on the same test tasks; ± is the 95 % interval over tasks, std is over seeds.",
    cells,
    rows,
    figures,
    scale=Scale(seeds=3, steps=70_000, paper_steps=70_000),
)
