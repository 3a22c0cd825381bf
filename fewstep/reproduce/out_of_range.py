"""Figure 3 of the universality paper: tasks beyond those of the training, for learners by gradient and by reading."""

import math
from functools import partial
from typing import Any

from fewstep.reproduce import omniglot
from fewstep.reproduce._draw import numbers
from fewstep.reproduce._figure import Figure, style
from fewstep.reproduce._images import image_experiment
from fewstep.reproduce._rows import make_row
from fewstep.reproduce._study import Cell, Judged, Row, Scale, Study

GRADIENT = {"MAML": "maml", "MT-net": "mtnet"}
READING = {"SNAIL": "snail", "MetaNet": "metanet", "LSTM": "recurrent"}
_SINE: dict[str, Any] = {"frequency": (1.0, 1.0), "shots": 5, "queries": 10}
_OF_RULES: dict[str, Any] = {
    "hidden": (100, 100),
    "bias_inputs": 10,
    "start": "he",
    "inner_steps": 5,
    "inner_lr": 0.001,
}
AMPLITUDES = tuple((low, low + 1.0) for low in (5.0, 6.0, 7.0, 8.0, 9.0))
PHASES = tuple((math.pi * (1 + n / 5), math.pi * (1 + (n + 1) / 5)) for n in range(5))
SHEARS = (0.0, 0.25, 0.5, 0.75, 1.0)
ZOOMS = (1.0, 0.85, 0.7, 0.55, 0.4)
_WAVES = tuple((f"amplitude {low:g}", {"amplitude": (low, high)}) for low, high in AMPLITUDES) + tuple(
    (f"phase {low / math.pi:.1f} pi", {"phase": (low, high)}) for low, high in PHASES
)
_CHARACTERS = tuple((f"shear {s:g}", {"shear": s}) for s in SHEARS) + tuple((f"zoom {z:g}", {"zoom": z}) for z in ZOOMS)
_PART = 2 / 7  # steps on images for each on sine waves
_WAVE_SEEDS = 3
_SIMILAR = {"accuracy": 0.05, "mse": 0.2}  # how far behind the best gradient learner counts as similar, in range


def cells(scale: Scale) -> list[Cell]:
    """Every learner on sine waves and on characters."""
    return [*_waves(scale), *_characters(scale)]


def _waves(scale: Scale) -> list[Cell]:
    made = []
    for label, method in (GRADIENT | READING).items():
        rule = method in GRADIENT.values()
        seeds = scale.seeds if scale.quick else max(scale.seeds, _WAVE_SEEDS)  # they take minutes
        own = _OF_RULES if rule else {"meta_batch": 25}
        experiment = scale.experiment(method, "sinusoid", **_SINE, **own, seeds=seeds)
        setting = {"tasks": "sine waves"}
        steps = (5,) if rule else (0,)
        made.append(Cell(f"sine-{method}", label, setting, experiment, steps, elsewhere=_WAVES))
    return made


def _characters(scale: Scale) -> list[Cell]:
    scale = scale._replace(steps=max(1, int(scale.steps * _PART)), shots=(1,))
    known = {cell.name: cell for cell in omniglot.cells(scale)}
    made = []
    for label, method in (GRADIENT | READING).items():
        cell = known.get(f"{method}-5way-1shot")
        if cell is None:
            experiment = image_experiment(
                scale, method, "omniglot", ways=5, shots=1, queries=1, meta_batch=16, split="maml", outer_lr=0.001
            )
            cell = Cell("", label, {}, experiment, (0,), tests=((5, 1, 1),))
        steps = (3,) if cell.experiment.inner_lr else (0,)
        made.append(cell._replace(
            name=f"omniglot-{method}", setting={"tasks": "characters"}, steps=steps, steps_at_test=steps,
            elsewhere=_CHARACTERS,
        ))  # fmt: skip
    return made


def rows(cells: list[Cell], judged: list[Judged]) -> list[Row]:
    """In range, where all are to be similar, and at the far end of each way out of it, where a learner by gradient is
    to be ahead of the others."""
    made = [row for cell, found in zip(cells, judged, strict=True) for row in _rows(cell, found)]
    for tasks, where in dict.fromkeys((row["setting"]["tasks"], row["setting"]["at"]) for row in made):
        here = [row for row in made if (row["setting"]["tasks"], row["setting"]["at"]) == (tasks, where)]
        sign = 1 if here[0]["metric"] == "accuracy" else -1
        means = {row["method"]: sign * row["mean"] for row in here if row["mean"] is not None}
        ours = [value for label, value in means.items() if label in GRADIENT]
        others = [value for label, value in means.items() if label in ("SNAIL", "MetaNet")]
        if not ours or len(others) < 2:
            continue
        best = max(ours)
        for row in here:
            value = means.get(row["method"])
            if where == "in range" and row["method"] in READING and value is not None:
                row["verdict"] = "meets" if value >= best - _SIMILAR[row["metric"]] else "misses"
            if where != "in range" and row["method"] in GRADIENT and value == best:
                row["verdict"] = "meets" if best > max(others) else "misses"
    return made


def _rows(cell: Cell, judged: Judged) -> list[Row]:
    images = bool(cell.tests)
    ends = [("in range", judged["errors"])]
    last = dict.fromkeys(name.split()[0] for name, _ in cell.elsewhere)
    for kind in last:
        name = [name for name, _ in cell.elsewhere if name.startswith(kind)][-1]
        ends.append((name, judged["elsewhere"].get(name, [])))
    made = []
    for name, scores in ends:
        found: Row = next((row for row in scores if row.get("transductive", True)), {})
        setting = {**cell.setting, "shots": cell.experiment.shots, "at": name}
        metric = "accuracy" if images else "mse"
        row = make_row(cell, judged, found, metric=metric, setting=setting, published=None)
        made.append(row | {"cell": cell.name, "steps": cell.experiment.steps})
    return made


def figures(cells: list[Cell], judged: list[Judged], speed: Judged) -> list[Figure]:
    """Score against how far out, a panel for each way: one figure for sine waves, one for characters."""
    data = [
        (kind, cell.label, place, row["mean"], row["interval95"])
        for cell, found in zip(cells, judged, strict=True) if found["errors"]
        for kind, place, row in _series(cell, found)
    ]  # fmt: skip
    waves = "Mean squared error for amplitudes and phases from the given value on, trained up to 5 and pi."
    characters = "Accuracy on sheared and on smaller characters."
    made = {("amplitude", "phase"): ("", waves), ("shear", "zoom"): ("-characters", characters)}
    return [
        _figure(f"out-of-range{name}", said, [row for row in data if row[0] in kinds])
        for kinds, (name, said) in made.items() if any(row[0] in kinds for row in data)
    ]  # fmt: skip


def _figure(name: str, said: str, data: list[tuple[Any, ...]]) -> Figure:
    kinds = list(dict.fromkeys(row[0] for row in data))
    return Figure(
        name, "Figure 3: beyond the training's tasks", f"{said} The band is the 95 % interval over tasks.",
        [partial(_panel, kind, [row[1:] for row in data if row[0] == kind]) for kind in kinds],
        ("how", "method", "value", "mean", "interval95"), data,
    )  # fmt: skip


def _series(cell: Cell, found: Judged) -> list[tuple[str, float, Row]]:
    made = []
    for name, scores in found["elsewhere"].items():
        kind, value = name.split()[:2]
        row = next(row for row in scores if row.get("transductive", True))
        made.append((kind, float(value), row))
    return made


def _panel(kind: str, data: list[tuple[Any, ...]], ax: Any) -> None:
    images = kind in ("shear", "zoom")
    for number, label in enumerate(dict.fromkeys(row[0] for row in data)):
        x, y, half = numbers([row[1:] for row in data if row[0] == label])
        scale = 100 if images else 1
        ax.plot(x, scale * y, marker="o", markersize=3, label=label, **style(number))
        ax.fill_between(
            x, scale * (y - half), scale * (y + half), color=style(number)["color"], alpha=0.15, linewidth=0
        )
    ax.set(
        title=kind, xlabel=kind + (" / pi" if kind == "phase" else ""), ylabel="accuracy in %" if images else "error"
    )
    if kind == "zoom":
        ax.invert_xaxis()
    ax.legend(fontsize=7)


STUDY = Study(
    "out-of-range",
    "Out of range: Figure 3 of the universality paper",
    "Sine waves: 5 points, amplitude 0.1 to 5 and phase 0 to pi in training, tested up to 10 and to 2 pi; MAML and "
    "MT-net have two hidden layers of 100, 10 learned inputs and five inner steps of 0.001. Characters: 5 ways, 1 "
    "shot, split maml, tested sheared and made smaller, each from the original of 105 pixels; all learners see them "
    "through the same conv4. SNAIL has the blocks of its paper, MetaNet and the LSTM are ours in size.",
    "Finn & Levine, ICLR 2018, section 6.1. The paper draws the figure and prints no numbers: what is judged is that "
    "at the far end MAML or MT-net is ahead of SNAIL and MetaNet, and that in range those that read are at most 5 "
    "points of accuracy, or 0.2 of squared error, behind the better of MAML and MT-net.",
    "± is the 95 % interval over the test tasks; rows at the far end say it for the better of MAML and MT-net, rows in "
    "range for each learner that reads. Sine waves: three seeds; characters: one.",
    cells,
    rows,
    figures,
    scale=Scale(seeds=1, steps=70_000, paper_steps=10_000),
    quick=Scale(seeds=1, steps=350, n_tasks=50, quick=True, paper_steps=10_000),
    by_row=True,
)
