"""Figure 5 of the universality paper: MAML needs depth, a network that is told the task does not."""

from functools import partial
from typing import Any

from fewstep.reproduce._draw import numbers, training_curves
from fewstep.reproduce._figure import Figure, style
from fewstep.reproduce._rows import make_row
from fewstep.reproduce._study import Cell, Judged, Row, Scale, Study

WIDTHS = {1: 250, 2: 200, 3: 141, 4: 115, 5: 100}  # of each hidden layer, for about 40,000 weights from depth 2 on
_TASKS: dict[str, Any] = {
    "order": 3, "x_range": (-3.0, 3.0), "divisor": 1.0, "shots": 40, "queries": 40, "start": "he", "bias_inputs": 10,
    "schedule": "cosine",
}  # fmt: skip
_INNER_LR = 0.003  # of 0.001, 0.003 and 0.01 the best for three hidden layers after 1,500 steps
LABELS = {"maml": "MAML", "told": "told the task"}


def cells(scale: Scale) -> list[Cell]:
    """Both networks at each depth; a quick run takes two depths."""
    kinds: dict[str, dict[str, Any]] = {
        "maml": {"inner_steps": 1, "inner_lr": _INNER_LR}, "told": {"inner_steps": 0, "conditioned": True},
    }  # fmt: skip
    made = []
    for depth in (1, 3) if scale.quick else WIDTHS:
        hidden = (WIDTHS[depth],) * depth
        for kind, own in kinds.items():
            experiment = scale.experiment("maml", "polynomial", hidden=hidden, **_TASKS, **own)
            made.append(
                Cell(f"{kind}-{depth}", LABELS[kind], {"depth": depth}, experiment, steps=(int(kind == "maml"),))
            )
    return made


def rows(cells: list[Cell], judged: list[Judged]) -> list[Row]:
    """The error at each depth; MAML is to gain from one to three hidden layers, the other network not to need them."""
    made = [_row(cell, found) for cell, found in zip(cells, judged, strict=True)]
    error = {(row["method"], row["setting"]["depth"]): row["mean"] for row in made}
    for row in made:
        first, now = error.get((row["method"], 1)), row["mean"]
        if row["setting"]["depth"] == 3 and first is not None and now is not None:
            fell = now < first
            needs = row["method"] == LABELS["maml"]
            row["verdict"] = "meets" if (fell if needs else now > 0.5 * first) else "misses"
    return made


def _row(cell: Cell, judged: Judged) -> Row:
    found = judged["errors"][0] if judged["errors"] else {}
    return make_row(cell, judged, found, metric="mse", setting=cell.setting, published=None)


def figures(cells: list[Cell], judged: list[Judged], speed: Judged) -> list[Figure]:
    """Error against depth, and the trainings."""
    data = [(r["method"], r["setting"]["depth"], r["mean"], r["seed_std"] or 0.0) for r in rows(cells, judged)]
    groups = {
        label: [(f"{cell.setting['depth']} hidden", found) for cell, found in zip(cells, judged, strict=True)
                if cell.label == label] for label in LABELS.values()
    }  # fmt: skip
    return [
        Figure(
            "error-by-depth", "Figure 5: error against depth",
            "Mean squared error on unseen polynomials: the mean over seeds, bars of one standard deviation over seeds.",
            [partial(_bars, data)], ("network", "hidden layers", "mean", "seed_std"), data,
        ),
        training_curves(groups),
    ]  # fmt: skip


def _bars(data: list[tuple[Any, ...]], ax: Any) -> None:
    for number, label in enumerate(LABELS.values()):
        mine = [row[1:] for row in data if row[0] == label]
        if mine:
            depth, mean, std = numbers(mine)
            ax.errorbar(depth, mean, std, marker="o", capsize=3, label=label, **style(number))
    ax.set(xlabel="hidden layers", ylabel="mean squared error", yscale="log")
    ax.legend(fontsize=8)


STUDY = Study(
    "depth",
    "Depth: Figure 5 of the universality paper",
    "Polynomials of order 3, coefficients from -1 to 1, x from -3 to 3, 40 points to learn from and 40 to be judged "
    "on; perceptrons of 1 to 5 hidden layers with about 40,000 weights (one layer: 250 units, as in the paper), 10 "
    "learned inputs. MAML with one inner step, or a network that gets the coefficients beside x and takes none. The "
    "outer step size falls to 0 by a cosine over 10,000 steps, where the paper takes 70,000.",
    "Finn & Levine, ICLR 2018, section 6.2. The paper draws the figure and prints no numbers: what is judged is that "
    "MAML's error with three hidden layers is below that with one, and that the other network's does not halve.",
    "The mean over seeds of the error on the same test tasks; ± is the 95 % interval over tasks, std is over seeds.",
    cells,
    rows,
    figures,
    scale=Scale(seeds=3, steps=10_000, paper_steps=10_000),
)
