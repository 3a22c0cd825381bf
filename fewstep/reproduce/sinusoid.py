"""Table 1 of the MT-net paper: sine waves, trained with 10 shots, tested with 5, 10 and 20."""

from functools import partial
from typing import Any

from fewstep.reproduce._draw import adapted_curves, error_by_inner_steps, mean_training, training_curves
from fewstep.reproduce._figure import Figure
from fewstep.reproduce._rows import error_row
from fewstep.reproduce._study import LEGEND, Cell, Judged, Row, Scale, Study, name

TEST_SHOTS = (5, 10, 20)
# Method as printed, our name for it, and the paper's error at 5, 10 and 20 shots with its 95 % interval. The row of
# MAML is the authors' own run, although it is marked as quoted; that of Meta-SGD is Li et al.'s.
TABLE = (
    ("MAML", "maml", ((1.07, 0.11), (0.71, 0.07), (0.50, 0.05))),
    ("Meta-SGD", "meta_sgd", ((0.88, 0.14), (0.53, 0.09), (0.35, 0.06))),
    ("M-net-full", "mnet_full", ((0.91, 0.09), (0.63, 0.07), (0.38, 0.04))),
    ("M-net", "mnet", ((0.88, 0.09), (0.60, 0.06), (0.41, 0.04))),
    ("T-net", "tnet", ((0.83, 0.08), (0.56, 0.06), (0.38, 0.04))),
    ("MT-net-full", "mtnet_full", ((0.81, 0.08), (0.51, 0.05), (0.35, 0.04))),
    ("MT-net", "mtnet", ((0.76, 0.09), (0.49, 0.05), (0.33, 0.04))),
)
OURS: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("metric + mask + rates", "metric+mask+rates", {}),
    ("MT-net", "mtnet", {"meta_batch": 25}),
    ("metric + mask + rates", "metric+mask+rates", {"meta_batch": 25}),
)
LOOK = ("maml", "tnet", "mtnet", "metric+mask+rates")  # what a quick run takes


def cells(scale: Scale) -> list[Cell]:
    """The paper's seven methods, then ours."""
    plan: list[tuple[str, str, dict[str, int], bool]] = [(label, method, {}, False) for label, method, _ in TABLE]
    plan += [(label, method, setting, True) for label, method, setting in OURS]
    if scale.quick:
        plan = [entry for entry in plan if entry[1] in LOOK and not entry[2]]
    return [
        Cell(
            "-".join([method, *map(str, setting.values())]), label, setting,
            scale.experiment(method, "sinusoid", **setting), scale.inner_steps, TEST_SHOTS, ours,
        )
        for label, method, setting, ours in plan
    ]  # fmt: skip


def rows(cells: list[Cell], judged: list[Judged]) -> list[Row]:
    """One row for each method and number of shots; ours stand beside the paper's MT-net."""
    published = {label: numbers for label, _, numbers in TABLE}
    return [
        error_row(cell, found, shots, published.get(cell.label, published["MT-net"])[number])
        for cell, found in zip(cells, judged, strict=True)
        for number, shots in enumerate(TEST_SHOTS)
    ]


def figures(cells: list[Cell], judged: list[Judged], speed: Judged) -> list[Figure]:
    """Ours beside the paper's, adapted curves, error against inner steps, training curves, cost."""
    labeled = [(name(cell), found) for cell, found in zip(cells, judged, strict=True)]
    made = [
        _beside(cells, rows(cells, judged)),
        adapted_curves(cells, judged),
        error_by_inner_steps({"all methods": labeled}),
        training_curves({"all methods": labeled}),
    ]
    return made + ([_cost(speed)] if speed else [])


def _beside(cells: list[Cell], rows: list[Row]) -> Figure:
    names = [name(cell) for cell in cells for _ in TEST_SHOTS]
    data = [
        (r["setting"]["shots"], model, r["mean"], r["interval95"], r["seed_std"], r["published"],
         r["published_interval95"], r["ours"])
        for model, r in zip(names, rows, strict=True)
    ]  # fmt: skip
    return Figure(
        "table-1", "Table 1: ours and the paper's",
        "Mean squared error after one step, with the 95 % interval over tasks. Filled: measured here; open: the "
        "paper's. Methods that the paper does not have, marked with a star, stand beside its MT-net.",
        [partial(_dots, shots, [row for row in data if row[0] == shots]) for shots in TEST_SHOTS],
        ("shots", "method", "mean", "interval95", "seed_std", "published", "published_interval95", "ours"), data,
    )  # fmt: skip


def _dots(shots: int, data: list[tuple[Any, ...]], ax: Any) -> None:
    for place, (_, _, mean, half, _, published, interval, _) in enumerate(reversed(data)):
        ax.errorbar(published, place - 0.15, xerr=interval, fmt="o", mfc="white", color="#868e96", markersize=5)
        if mean is not None:
            ax.errorbar(mean, place + 0.15, xerr=half, fmt="o", color="#0072b2", markersize=5)
    ax.set_yticks(range(len(data)), [row[1] for row in reversed(data)])
    ax.set(title=f"{shots} shots", xlabel="mean squared error", xlim=(0, None))


def cost(cells: list[Cell], judged: list[Judged], speed: Judged) -> list[Row]:
    """What each method costs, and when it reaches MAML's final error: in steps, and in seconds at its speed."""
    found = {name(cell): training for cell, training in zip(cells, judged, strict=True)}
    goal = mean_training(found["MAML"])[1][-1] if "MAML" in found else -1.0
    lines = []
    for label, training in found.items():
        steps, errors = mean_training(training)
        reached = next((int(step) for step, error in zip(steps, errors, strict=True) if error <= goal), None)
        together = (speed.get("together") or speed.get("alone") or {}).get(label, {})
        rate = together.get("steps_per_second") or training["steps_per_second"]
        alone = speed.get("alone", {}).get(label, {})
        lines.append(
            {
                "method": label,
                "training_seconds": training["seconds"],
                "steps_per_second": alone.get("steps_per_second"),
                "steps_per_second_all_seeds": rate,
                "times_maml": alone.get("times_reference"),
                "times_maml_all_seeds": together.get("times_reference"),
                "steps_to_maml_final_error": reached,
                "seconds_to_maml_final_error": reached / rate if reached and rate else None,
            }
        )
    return lines


def _cost(speed: Judged) -> Figure:
    data = [
        (label, found["seeds"], found["steps_per_second"], found["lowest"], found["highest"], found["times_reference"])
        for part in speed.values()
        for label, found in part.items()
    ]
    titles = {row[1]: "one seed" if row[1] == 1 else f"{row[1]} seeds together" for row in data}
    return Figure(
        "cost", "Cost",
        "Outer steps a second, compilation apart: the median of runs that took turns, and their range. The number is "
        "the time of a step over that of MAML's.",
        [partial(_bars, title, [row for row in data if row[1] == seeds]) for seeds, title in titles.items()],
        ("method", "seeds", "steps_per_second", "lowest", "highest", "times_maml"), data,
    )  # fmt: skip


def _bars(title: str, data: list[tuple[Any, ...]], ax: Any) -> None:
    for place, (_, _, rate, low, high, times) in enumerate(reversed(data)):
        ax.barh(place, rate, color="#56b4e9", xerr=[[rate - low], [high - rate]], ecolor="#495057")
        ax.text(rate * 0.02, place, "" if times is None else f"{times:.2f}", va="center", fontsize=8)
    ax.set_yticks(range(len(data)), [row[0] for row in reversed(data)])
    ax.set(title=title, xlabel="outer steps a second")


STUDY = Study(
    "sinusoid",
    "Sine waves: Table 1 of the MT-net paper",
    "Trained on 10-shot tasks A sin(w x - b), tested on 5, 10 and 20 shots: network 1-40-40-1, one inner step of size "
    "0.01 in training and test, meta-batch 4, Adam 0.001, 60,000 steps, 600 test tasks, the last parameters.",
    "Lee & Choi, ICML 2018, section 6.1. The paper does not say after how many steps it tests; one is the reading that "
    "gives its MAML row.",
    LEGEND + " * marks what the paper does not have, beside its MT-net.",
    cells,
    rows,
    figures,
    cost,
)
