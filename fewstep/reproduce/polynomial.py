"""Figure 4 and appendix C of the MT-net paper: harder tasks move more weights."""

from functools import partial
from typing import Any

import numpy as np

from fewstep.reproduce._draw import adapted_curves, error_by_inner_steps, training_curves
from fewstep.reproduce._figure import PALETTE, Figure
from fewstep.reproduce._rows import error_row
from fewstep.reproduce._study import SHOTS, Cell, Judged, Row, Scale, Study

ORDERS = (0, 1, 2)
AVERAGES = {
    "by_logit": "mean over all logits, as the paper says",
    "by_layer": "mean of the layers' means, as its code has it",
    "by_parameter": "mean over all weights",
}


def cells(scale: Scale) -> list[Cell]:
    """The MT-net on polynomials of each order."""
    return [
        Cell(
            f"order-{order}", "MT-net", {"order": order}, scale.experiment("mtnet", "polynomial", order=order),
            steps=scale.inner_steps,
        )
        for order in ORDERS
    ]  # fmt: skip


def rows(cells: list[Cell], judged: list[Judged]) -> list[Row]:
    """The updated fraction in three averagings, which is to rise with the order; the printed sign; the error."""
    made: list[Row] = []
    for average in AVERAGES:
        before: float | None = None
        for cell, found in zip(cells, judged, strict=True):
            row = _fraction(cell, found, average)
            if row["mean"] is not None and before is not None:
                row["verdict"] = "meets" if row["mean"] > before else "misses"
            before = row["mean"]
            made.append(row)
    return made + [error_row(cell, found, SHOTS, None) for cell, found in zip(cells, judged, strict=True)]


def _fraction(cell: Cell, found: Judged, average: str) -> Row:
    seeds = [inside[average] for inside in found["inside"]]
    return {
        "method": cell.label,
        "setting": {**cell.setting, "average": average.replace("_", " ")},
        "metric": "updated fraction",
        "mean": float(np.mean(seeds)) if seeds else None,
        "interval95": None,
        "median": None,
        "seed_std": float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None,
        "seeds": cell.experiment.seeds,
        "diverged_seeds": found["diverged_seeds"],
        "with_the_printed_sign": 1 - float(np.mean(seeds)) if seeds else None,
        "published": None,
        "verdict": "" if seeds else "diverged",
        "ours": False,
        "seconds": found["seconds"],
    }


def figures(cells: list[Cell], judged: list[Judged], speed: Judged) -> list[Figure]:
    """The updated fraction by order and layer, the qualitative curves, error against inner steps, training curves."""
    labeled = [(f"order {cell.setting['order']}", found) for cell, found in zip(cells, judged, strict=True)]
    return [
        _by_order(cells, judged),
        _by_layer(cells, judged),
        adapted_curves(cells, judged, 3),
        error_by_inner_steps({"MT-net": labeled}),
        training_curves({"MT-net": labeled}),
    ]


def _by_order(cells: list[Cell], judged: list[Judged]) -> Figure:
    data = [
        (average, cell.setting["order"], inside["seed"], inside[average])
        for average in AVERAGES
        for cell, found in zip(cells, judged, strict=True)
        for inside in found["inside"]
    ]
    return Figure(
        "updated-fraction", "Figure 4: harder tasks move more weights",
        "The expected share of weights that a task moves, the mean of sigmoid(+logit), against the order of the "
        "polynomials: the mean over seeds, and each seed as a dot.",
        [partial(_bars, AVERAGES[a], "order", [row[1:] for row in data if row[0] == a]) for a in AVERAGES],
        ("average", "order", "seed", "updated"), data,
    )  # fmt: skip


def _by_layer(cells: list[Cell], judged: list[Judged]) -> Figure:
    data = [
        (cell.setting["order"], layer, inside["seed"], updated)
        for cell, found in zip(cells, judged, strict=True)
        for inside in found["inside"]
        for layer, updated in inside["layers"].items()
    ]
    orders = list(dict.fromkeys(row[0] for row in data))
    return Figure(
        "updated-by-layer", "The updated fraction, layer by layer",
        "One panel an order; from the input's layer to the output's. The mean over seeds, and each seed as a dot.",
        [partial(_bars, f"order {n}", "layer", [row[1:] for row in data if row[0] == n]) for n in orders],
        ("order", "layer", "seed", "updated"), data,
    )  # fmt: skip


def _bars(title: str, xlabel: str, data: list[tuple[Any, ...]], ax: Any) -> None:
    for place, at in enumerate(dict.fromkeys(row[0] for row in data)):
        seeds = [row[2] for row in data if row[0] == at]
        ax.bar(place, np.mean(seeds), width=0.6, color=PALETTE[2])
        ax.scatter(np.linspace(place - 0.15, place + 0.15, len(seeds)), seeds, color=PALETTE[0], s=8, zorder=3)
        ax.text(place, 1.03, f"{np.mean(seeds):.2f}", ha="center", fontsize=8)
    names = [str(at) for at in dict.fromkeys(row[0] for row in data)]
    ax.set_xticks(range(len(names)), names)
    ax.set(xlabel=xlabel, ylabel="updated", ylim=(0, 1.12))
    ax.set_title(title, fontsize=9)


STUDY = Study(
    "polynomial",
    "Polynomials: Figure 4 and appendix C of the MT-net paper",
    "MT-nets trained on 10-shot tasks sum c_i (x/2)^i of order 0, 1 and 2, x in [-2, 2]; all else as sinusoid.",
    "Lee & Choi, ICML 2018, section 6.3. The paper prints the fraction as the mean of sigmoid(-logit), which is the "
    "chance that a weight is not moved; it must be sigmoid(+logit), the sign its masks are drawn with. It gives no "
    "numbers for its figure: what is judged is that the fraction rises from one order to the next.",
    "The updated fraction is the mean over seeds, std is over seeds; a row meets the paper if the fraction is larger "
    "than that of the order before. For errors, ± is the 95 % interval over test tasks.",
    cells,
    rows,
    figures,
)
