"""Figure 5 of the universality paper: MAML needs depth, a network that is given the task does not."""

from fewstep_studies.reproduce._curve_figures import training_curves
from fewstep_studies.reproduce._figure import Figure, lines
from fewstep_studies.reproduce._measurement import Measurement, Training, make_row
from fewstep_studies.reproduce._rows import Changes, Row, with_verdicts
from fewstep_studies.reproduce._study import QUICK, Cell, Results, Study, TrainingOptions
from fewstep_studies.reproduce._training import TRAININGS, UNCLIPPED, curve_experiment

WIDTHS = {1: 250, 2: 200, 3: 141, 4: 115, 5: 100}  # of each hidden layer, for about 40,000 weights from depth 2 on
_TASKS: Changes = {
    "order": 3, "x_range": (-3.0, 3.0), "divisor": 1.0, "shots": 40, "queries": 40, "init": "he", "bias_inputs": 10,
    "schedule": "cosine", **UNCLIPPED,
}  # fmt: skip
_INNER_LR = 0.003  # of 0.001, 0.003 and 0.01 the best for three hidden layers after 1,500 steps
LABELS = {"maml": "MAML", "told": "told the task"}


def cells(options: TrainingOptions) -> list[Cell[Training]]:
    """Both networks at each depth; a quick run takes two depths."""
    kinds: dict[str, Changes] = {
        "maml": {"inner_steps": 1, "inner_lr": _INNER_LR}, "told": {"inner_steps": 0, "conditioned": True},
    }  # fmt: skip
    return [
        Cell(f"{kind}-{depth}", LABELS[kind], {"depth": depth}, Training(
            curve_experiment(options, "maml", "polynomial", hidden=(WIDTHS[depth],) * depth, **_TASKS, **own),
            (int(kind == "maml"),),
        ))
        for depth in ((1, 3) if options.quick else WIDTHS) for kind, own in kinds.items()
    ]  # fmt: skip


def rows(results: Results[TrainingOptions, Training, Measurement]) -> list[Row]:
    """The error at each depth."""
    entries = [
        make_row(
            cell, measurement, measurement.scores[0] if measurement.scores else None, metric="mse", setting=cell.setting
        )
        for cell, measurement in results.pairs
    ]
    return with_verdicts(entries, _claim)


def _claim(row: Row, rows: list[Row]) -> bool | None:
    """MAML is to gain from one to three hidden layers, the other network not to need them."""
    first = next((r.mean for r in rows if (r.method, r.setting["depth"]) == (row.method, 1)), None)
    if row.setting["depth"] != 3 or first is None or row.mean is None:
        return None
    return row.mean < first if row.method == LABELS["maml"] else row.mean > 0.5 * first


def figures(results: Results[TrainingOptions, Training, Measurement]) -> list[Figure]:
    """Error against depth, and the trainings."""
    data = [(row.method, row.setting["depth"], row.mean, row.seed_std or 0.0) for row in rows(results)]
    groups = {
        label: [
            (f"{cell.setting['depth']} hidden", measurement)
            for cell, measurement in results.pairs
            if cell.label == label
        ]
        for label in LABELS.values()
    }
    return [
        Figure(
            "error-by-depth", "Figure 5: error against depth",
            "Mean squared error on unseen polynomials: the mean over seeds, bars of one standard deviation over seeds.",
            [lines("", data, "hidden layers", yscale="log", bars=True)],
            ("network", "hidden layers", "mean", "seed_std"), data,
        ),
        training_curves(groups),
    ]  # fmt: skip


STUDY = Study("depth", TRAININGS, cells, rows, figures, full=TrainingOptions(seeds=3, steps=10_000), quick=QUICK)
