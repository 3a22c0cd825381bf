"""Table 1 of the MT-net paper: sine waves, trained with 10 shots, tested with 5, 10 and 20."""

from functools import partial

from fewstep_studies.reproduce._curve_figures import (
    adapted_curves,
    error_by_inner_steps,
    mean_training,
    training_curves,
)
from fewstep_studies.reproduce._figure import Axes, Figure, Points, beside_the_paper, rows_of
from fewstep_studies.reproduce._measurement import Measurement, Training, error_row
from fewstep_studies.reproduce._rows import Cost, Row, Setting
from fewstep_studies.reproduce._speed import Speed
from fewstep_studies.reproduce._study import QUICK, Cell, Results, Study, TrainingOptions
from fewstep_studies.reproduce._training import TRAININGS, UNCLIPPED, curve_experiment, side_by_side

TEST_SHOTS = (5, 10, 20)
# Method as printed, our name for it, and the paper's error at 5, 10 and 20 shots with its 95% interval. The row of
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
OURS: tuple[tuple[str, str, Setting], ...] = (
    ("metric + mask + rates", "metric+mask+rates", {}),
    ("MT-net", "mtnet", {"meta_batch": 25}),
    ("metric + mask + rates", "metric+mask+rates", {"meta_batch": 25}),
)
LOOK = ("maml", "tnet", "mtnet", "metric+mask+rates")  # what a quick run takes


def cells(options: TrainingOptions) -> list[Cell[Training]]:
    """The paper's seven methods, then ours."""
    plan: list[tuple[str, str, Setting, bool]] = [(label, method, {}, False) for label, method, _ in TABLE]
    plan += [(label, method, setting, True) for label, method, setting in OURS]
    if options.quick:
        plan = [entry for entry in plan if entry[1] in LOOK and not entry[2]]
    experiment = lambda method, setting: curve_experiment(options, method, "sinusoid", **UNCLIPPED, **setting)
    return [
        Cell(
            "-".join([method, *map(str, setting.values())]), label, setting,
            Training(experiment(method, setting), options.inner_steps, TEST_SHOTS), ours,
        )
        for label, method, setting, ours in plan
    ]  # fmt: skip


def rows(results: Results[TrainingOptions, Training, Measurement]) -> list[Row]:
    """One row for each method and number of shots; ours stand beside the paper's MT-net."""
    published = {label: numbers for label, _, numbers in TABLE}
    return [
        error_row(cell, measurement, shots, published.get(cell.label, published["MT-net"])[number])
        for cell, measurement in results.pairs
        for number, shots in enumerate(TEST_SHOTS)
    ]


def figures(results: Results[TrainingOptions, Training, Measurement]) -> list[Figure]:
    """Ours beside the paper's, adapted curves, error against inner steps, training curves, cost."""
    lines = {"all methods": [(cell.title, measurement) for cell, measurement in results.pairs]}
    plots = [
        _beside(results),
        adapted_curves(results.pairs),
        error_by_inner_steps(lines),
        training_curves(lines),
    ]
    return plots + ([_cost(results.speed)] if results.speed else [])


def _beside(results: Results[TrainingOptions, Training, Measurement]) -> Figure:
    titles = [cell.title for cell, _ in results.pairs for _ in TEST_SHOTS]
    data = [
        (row.setting["shots"], title, row.mean, row.interval95, row.seed_std, row.published, row.published_interval95,
         row.ours)
        for title, row in zip(titles, rows(results), strict=True)
    ]  # fmt: skip
    points = [(shots, title, mean, half, paper, interval) for shots, title, mean, half, _, paper, interval, _ in data]
    return Figure(
        "table-1", "Table 1: ours and the paper's",
        "Mean squared error after one step, with the 95% interval over tasks. Filled: measured here; open: the "
        "paper's. Methods that the paper does not have, marked with a star, stand beside its MT-net.",
        [beside_the_paper(f"{shots} shots", rows_of(points, shots), "mean squared error") for shots in TEST_SHOTS],
        ("shots", "method", "mean", "interval95", "seed_std", "published", "published_interval95", "ours"), data,
    )  # fmt: skip


def cost(results: Results[TrainingOptions, Training, Measurement]) -> list[Cost]:
    """What each method costs, and when it reaches MAML's final error: in steps, and in seconds at its speed."""
    trainings = {cell.title: measurement for cell, measurement in results.pairs}
    goal = mean_training(trainings["MAML"])[1][-1] if "MAML" in trainings else -1.0
    alone = results.speed.get("alone", {})
    together, costs = results.speed.get("together", alone), []
    for label, measurement in trainings.items():
        reached = next(
            (int(step) for step, error in zip(*mean_training(measurement), strict=True) if error <= goal), None
        )
        one, all_seeds = alone.get(label), together.get(label)
        rate = all_seeds.steps_per_second if all_seeds else measurement.steps_per_second
        costs.append(Cost(
            label, training_seconds=measurement.seconds, steps_per_second=one and one.steps_per_second,
            times_maml=one and one.times_reference, steps_per_second_all_seeds=rate,
            times_maml_all_seeds=all_seeds and all_seeds.times_reference, steps_to_maml_final_error=reached,
            seconds_to_maml_final_error=reached / rate if reached and rate else None,
        ))  # fmt: skip
    return costs


def _cost(speed: Speed) -> Figure:
    data = [
        (label, rate.seeds, rate.steps_per_second, rate.lowest, rate.highest, rate.times_reference)
        for part in speed.values()
        for label, rate in part.items()
    ]
    titles = {row[1]: "one seed" if row[1] == 1 else f"{row[1]} seeds together" for row in data}
    return Figure(
        "cost", "Cost",
        "Outer steps per second, compilation apart: the median of runs that took turns, and their range. The number is "
        "the time of a step over that of MAML's.",
        [partial(_bars, title, [row for row in data if row[1] == seeds]) for seeds, title in titles.items()],
        ("method", "seeds", "steps_per_second", "lowest", "highest", "times_maml"), data,
    )  # fmt: skip


def _bars(title: str, data: Points, ax: Axes) -> None:
    for place, (_, _, rate, low, high, times) in enumerate(reversed(data)):
        ax.barh(place, rate, color="#56b4e9", xerr=[[rate - low], [high - rate]], ecolor="#495057")
        ax.text(rate * 0.02, place, "" if times is None else f"{times:.2f}", va="center", fontsize=8)
    ax.set_yticks(range(len(data)), [row[0] for row in reversed(data)])
    ax.set(title=title, xlabel="outer steps per second")


STUDY = Study(
    "sinusoid", TRAININGS, cells, rows, figures, full=TrainingOptions(), quick=QUICK, time=side_by_side, cost=cost,
)  # fmt: skip
