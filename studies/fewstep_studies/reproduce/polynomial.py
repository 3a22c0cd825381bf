"""Figure 4 and appendix C of the MT-net paper: harder tasks move more weights."""

import numpy as np

from fewstep_studies.reproduce._curve_figures import adapted_curves, error_by_inner_steps, training_curves
from fewstep_studies.reproduce._figure import Figure, bars_with_dots, keys, rows_of
from fewstep_studies.reproduce._measurement import Measurement, Training, error_row
from fewstep_studies.reproduce._rows import Row, with_verdicts
from fewstep_studies.reproduce._study import QUICK, Cell, Pairs, Results, Study, TrainingOptions
from fewstep_studies.reproduce._training import SHOTS, TRAININGS, UNCLIPPED, curve_experiment

ORDERS = (0, 1, 2)
AVERAGES = {
    "by_logit": "mean over all logits, as the paper says",
    "by_layer": "mean of the layers' means, as its code has it",
    "by_parameter": "mean over all weights",
}


def cells(options: TrainingOptions) -> list[Cell[Training]]:
    """The MT-net on polynomials of each order."""
    plans = {
        order: Training(curve_experiment(options, "mtnet", "polynomial", order=order, **UNCLIPPED), options.inner_steps)
        for order in ORDERS
    }
    return [Cell(f"order-{order}", "MT-net", {"order": order}, plan) for order, plan in plans.items()]


def rows(results: Results[TrainingOptions, Training, Measurement]) -> list[Row]:
    """The updated fraction in three averages; the printed sign; the error."""
    entries = [_fraction(cell, measurement, average) for average in AVERAGES for cell, measurement in results.pairs]
    return with_verdicts(entries, _claim) + [
        error_row(cell, measurement, SHOTS, None) for cell, measurement in results.pairs
    ]


def _claim(row: Row, rows: list[Row]) -> bool | None:
    """The fraction is to rise with the order."""
    lower = [r for r in rows if r.setting["average"] == row.setting["average"]]
    place = lower.index(row)
    before = lower[place - 1].mean if place else None
    return None if row.mean is None or before is None else row.mean > before


def _fraction(cell: Cell[Training], measurement: Measurement, average: str) -> Row:
    seeds: list[float] = [getattr(inside, average) for inside in measurement.inside]
    mean = float(np.mean(seeds)) if seeds else None
    return Row(
        cell.label, {**cell.setting, "average": average.replace("_", " ")}, "updated fraction", mean,
        seed_std=float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None, seeds=cell.plan.experiment.seeds,
        diverged_seeds=measurement.diverged_seeds, verdict="" if seeds else "diverged", seconds=measurement.seconds,
        cell=cell.name, steps=cell.plan.length, more={"with_the_printed_sign": None if mean is None else 1 - mean},
    )  # fmt: skip


def figures(results: Results[TrainingOptions, Training, Measurement]) -> list[Figure]:
    """The updated fraction by order and layer, the qualitative curves, error against inner steps, training curves."""
    lines = {"MT-net": [(f"order {cell.setting['order']}", measurement) for cell, measurement in results.pairs]}
    return [
        _by_order(results.pairs),
        _by_layer(results.pairs),
        adapted_curves(results.pairs, 3),
        error_by_inner_steps(lines),
        training_curves(lines),
    ]


def _by_order(pairs: Pairs[Training, Measurement]) -> Figure:
    data = [
        (average, cell.setting["order"], inside.seed, getattr(inside, average))
        for average in AVERAGES
        for cell, measurement in pairs
        for inside in measurement.inside
    ]
    return Figure(
        "updated-fraction", "Figure 4: harder tasks move more weights",
        "The expected share of weights that a task moves, the mean of sigmoid(+logit), against the order of the "
        "polynomials: the mean over seeds, and each seed as a dot.",
        [bars_with_dots(AVERAGES[average], rows_of(data, average), "order", "updated") for average in AVERAGES],
        ("average", "order", "seed", "updated"), data,
    )  # fmt: skip


def _by_layer(pairs: Pairs[Training, Measurement]) -> Figure:
    data = [
        (cell.setting["order"], layer, inside.seed, updated)
        for cell, measurement in pairs
        for inside in measurement.inside
        for layer, updated in inside.layers.items()
    ]
    return Figure(
        "updated-by-layer", "The updated fraction, layer by layer",
        "One panel per order; from the input's layer to the output's. The mean over seeds, and each seed as a dot.",
        [bars_with_dots(f"order {order}", rows_of(data, order), "layer", "updated") for order in keys(data)],
        ("order", "layer", "seed", "updated"), data,
    )  # fmt: skip


STUDY = Study("polynomial", TRAININGS, cells, rows, figures, full=TrainingOptions(), quick=QUICK)
