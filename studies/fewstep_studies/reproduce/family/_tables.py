"""The rows of the family, its two tables, and its picture: error and accuracy against cost."""

from collections.abc import Sequence
from functools import partial

from fewstep.files import JSON
from fewstep_studies.reproduce._figure import PALETTE, Axes, Figure, Points, rows_of
from fewstep_studies.reproduce._measurement import Score, Training, make_row
from fewstep_studies.reproduce._rows import Result, Row
from fewstep_studies.reproduce._speed import Rate
from fewstep_studies.reproduce._study import Cell, Results, Table
from fewstep_studies.reproduce.family._cells import (
    CIFAR,
    IMAGE_STEPS,
    INNER_STEPS,
    SINE,
    AnyPlan,
    FamilyOptions,
    Timing,
    with_plan,
)
from fewstep_studies.reproduce.family._measure import Found

AllResults = Results[FamilyOptions, AnyPlan, Found]
_STATISTICS = {"transductive": "of the query", "support": "of the support"}


def rows(results: AllResults) -> list[Row]:
    """For each training its error, or its accuracies, with what a step needs and takes."""
    rates = {
        f"{cell.name.removeprefix('timing-')}-{method}": rate
        for cell, found in results.pairs for method, rate in found.rates.items()
    }  # fmt: skip
    return [
        row
        for cell, found in results.pairs if not isinstance(cell.plan, Timing)
        for row in _rows(with_plan(cell, cell.plan), found, rates.get(cell.name))
    ]  # fmt: skip


def _rows(cell: Cell[Training], found: Found, rate: Rate | None) -> list[Row]:
    more = _costs(found, rate)
    if cell.plan.images is None:
        score = next(iter(found.measurement.scores), None)
        return [make_row(cell, found.measurement, score, metric="mse", setting=cell.setting, **more)]
    minutes = {} if found.minutes is None else {"minutes": found.minutes, "cores": 1}
    scores: Sequence[Score | None] = found.measurement.scores or [None]
    return [
        make_row(
            cell, found.measurement, score, metric="accuracy", **more,
            setting={
                "tasks": CIFAR, "inner steps": (score and score.inner_steps) or IMAGE_STEPS[0],
                "statistics": _STATISTICS.get((score and score.norm) or "transductive", "of an image"),
                "steps": cell.plan.length, **minutes,
            },
        )
        for score in scores
    ]  # fmt: skip


def _costs(found: Found, rate: Rate | None) -> dict[str, JSON]:
    """What a step of one seed needs, and takes: of the processor, and beside MAML's in the same turns."""
    needs = {"meta_parameters": found.needs.meta_parameters, "memory_mb": found.needs.memory_mb}
    if rate is None or rate.processor_seconds is None:
        return needs
    return needs | {
        "processor_ms": 1000 * rate.processor_seconds, "times_maml": rate.processor_times_reference,
        "steps_per_second": rate.steps_per_second, "clock_times_maml": rate.times_reference,
    }  # fmt: skip


def tables(result: Result) -> list[Table]:
    """One table for sine waves and one for images."""
    sine = [row for row in result.rows if row.setting["tasks"] == SINE]
    images = [row for row in result.rows if row.setting["tasks"] == CIFAR]
    made = [(_sine_table(sine), sine), (_image_table(images), images)]
    return [table for table, some in made if some]


def _sine_table(rows: list[Row]) -> Table:
    counts = [f"{steps} inner step{'s'[: steps > 1]}" for steps in INNER_STEPS]
    head = [
        "method", *(f"error, {count}" for count in counts), "meta-parameters", "memory, MB", "processor, ms per step",
        "times MAML",
    ]  # fmt: skip
    body = []
    for method in dict.fromkeys(row.method for row in rows):
        own = {row.setting["inner steps"]: row for row in rows if row.method == method}
        each = [own.get(steps) for steps in INNER_STEPS]
        body.append([method, *map(_error, each), *_cost_cells([row for row in each if row])])
    return Table("family sine", head, body, SINE.capitalize(), _LEGEND)


def _image_table(rows: list[Row]) -> Table:
    head = [
        "method", *(f"{steps} inner steps" if steps > 1 else "1 inner step" for steps in IMAGE_STEPS),
        "1, statistics of the support", "steps of training", "meta-parameters", "memory, MB", "processor, ms per step",
        "times MAML",
    ]  # fmt: skip
    body = []
    for method in dict.fromkeys(row.method for row in rows):
        own = {(row.setting["inner steps"], row.setting["statistics"]): row for row in rows if row.method == method}
        first = next(iter(own.values()))
        shown = [own.get((steps, "of the query")) for steps in IMAGE_STEPS] + [own.get((1, "of the support"))]
        body.append([method, *map(_accuracy, shown), f"{first.steps or 0:,}", *_cost_cells([first])])
    return Table("family cifar-fs", head, body, f"{CIFAR}, 5 ways, 1 shot", _IMAGE_LEGEND)


_LEGEND = (
    "Mean squared error after as many inner steps as in training; ± is the 95% interval over the test tasks, std the "
    "standard deviation over seeds. Where two numbers stand for costs, they are with 1 / 5 inner steps. Costs are of "
    "one seed: the temporary memory of the compiled outer gradient, and the time of the processor per step, for which "
    "methods took turns with MAML."
)
_IMAGE_LEGEND = (
    "Accuracy in % on the test classes after 1 and 10 inner steps, normalized by the statistics of the query, as is "
    "usual; and by those of the support. Training was with one inner step, on one core, for the minutes that the rows "
    "say: steps of training are those that fitted in."
)


def _error(row: Row | None) -> str:
    if row is None:
        return "-"
    if row.mean is None:
        lost = f"not finite on {row.diverged_tasks} of {row.n_tasks} tasks"
        return "diverged" if row.median is None else f"{lost}, median {row.median:.3f}"
    lost = f" ({row.diverged_seeds} of {row.seeds} seeds diverged)" if row.diverged_seeds else ""
    return f"{row.mean:.3f} ± {row.interval95 or 0:.3f}, std {row.seed_std or 0:.3f}{lost}"


def _accuracy(row: Row | None) -> str:
    if row is None or row.mean is None:
        return "-" if row is None else "diverged"
    return f"{100 * row.mean:.1f} ± {100 * (row.interval95 or 0):.1f}"


def _cost_cells(rows: list[Row]) -> list[str]:
    parts = (("meta_parameters", ",d"), ("memory_mb", ".2f"), ("processor_ms", ".2f"), ("times_maml", ".2f"))
    return [_distinct([_number(row.more.get(name), form) for row in rows]) for name, form in parts]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def _distinct(words: list[str]) -> str:
    return " / ".join(dict.fromkeys(words)) if len(set(words)) == 1 else " / ".join(words)


def figures(results: AllResults) -> list[Figure]:
    """Error, or accuracy, against the time of the processor per step."""
    data: Points = [
        (_panel_title(row), row.method, row.more["times_maml"], row.mean, row.interval95, row.more["meta_parameters"],
         row.more["memory_mb"])
        for row in rows(results)
        if row.mean is not None and "times_maml" in row.more and row.setting.get("statistics") != "of the support"
    ]  # fmt: skip
    return [Figure(
        "accuracy-by-cost", "Error and accuracy against cost",
        "Each method at the time of the processor per outer step, over that of MAML in the same turns. Bars are 95% "
        "intervals over the test tasks. On sine waves lower is better, on images higher.",
        [partial(_panel, title, rows_of(data, title)) for title in dict.fromkeys(row[0] for row in data)],
        ("panel", "method", "times_maml", "mean", "interval95", "meta_parameters", "memory_mb"), data,
    )]  # fmt: skip


def _logarithmic(ax: Axes, of: str, values: Sequence[float], margin: float) -> None:
    """A logarithmic axis with plain numbers, and room for a label at the right."""
    low, high = min(values) / 1.2, max(values) * margin
    ticks = [tick * 10**power for power in range(-4, 4) for tick in (1, 2, 3, 5)]
    axis = getattr(ax, f"{of}axis")
    ax.set(**{f"{of}scale": "log"})
    axis.set_ticks([tick for tick in ticks if low <= tick <= high])
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")
    ax.set(**{f"{of}lim": (low, high)})


def _panel_title(row: Row) -> str:
    steps = row.setting["inner steps"]
    return f"{row.setting['tasks']}, {steps} inner step{'s' if steps != 1 else ''}"


def _panel(title: str, points: Points, ax: Axes) -> None:
    images = title.startswith(CIFAR)
    factor = 100 if images else 1
    for number, (method, cost, mean, half, *_) in enumerate(points):
        color = PALETTE[number % len(PALETTE)]
        ax.errorbar(cost, factor * mean, factor * (half or 0), fmt="o", markersize=4, color=color, capsize=2)
        ax.annotate(method, (cost, factor * mean), (4, 3), textcoords="offset points", fontsize=6, color=color)
    _logarithmic(ax, "x", [cost for _, cost, *_ in points], 1.5)
    if not images:
        _logarithmic(ax, "y", [mean for _, _, mean, *_ in points], 1.2)
    ax.set(
        title=title, xlabel="processor time per step, times MAML's",
        ylabel="accuracy in %" if images else "mean squared error",
    )  # fmt: skip
