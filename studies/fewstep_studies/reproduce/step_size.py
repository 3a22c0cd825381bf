"""Table 2 of the MT-net paper: how much the step size matters."""

from fewstep_studies.reproduce._curve_figures import adapted_curves, error_by_inner_steps, training_curves
from fewstep_studies.reproduce._figure import Figure, Points, lines
from fewstep_studies.reproduce._measurement import Measurement, Training, error_row
from fewstep_studies.reproduce._rows import Row
from fewstep_studies.reproduce._study import QUICK, Cell, Results, Study, TrainingOptions
from fewstep_studies.reproduce._training import SHOTS, TRAININGS, UNCLIPPED, curve_experiment

ALPHAS = (10.0, 1.0, 0.1, 0.01, 0.001, 0.0001)
# The paper's error and 95% interval for each step size, at 10 shots.
TABLE = (
    ("MAML", "maml", ((171.92, 25.04), (5.81, 0.49), (1.05, 0.11), (0.71, 0.07), (0.82, 0.08), (2.54, 0.19))),
    ("T-net", "tnet", ((4.08, 0.30), (4.15, 0.30), (0.68, 0.06), (0.56, 0.06), (0.59, 0.06), (0.62, 0.06))),
    ("MT-net", "mtnet", ((4.18, 0.30), (0.61, 0.07), (0.54, 0.05), (0.49, 0.05), (0.59, 0.06), (0.72, 0.07))),
)
LOOK = (1.0, 0.01)  # what a quick run takes, and what is drawn as curves
CLIPPED = "MT-net, clipped"  # ours: the outer gradient is clipped to norm 1, all else is as for MT-net


def cells(options: TrainingOptions) -> list[Cell[Training]]:
    """Each method at each step size, then ours; a quick run takes two of the sizes."""
    plan: list[tuple[str, str, dict[str, float]]] = [(label, method, {}) for label, method, _ in TABLE]
    plan += [] if options.quick else [(CLIPPED, "mtnet", {"clip_norm": 1.0})]
    experiment = lambda method, alpha, clip: curve_experiment(
        options, method, "sinusoid", inner_lr=alpha, **{**UNCLIPPED, **clip}
    )
    return [
        Cell(
            f"{method}{'-clipped' if clip else ''}-{alpha:g}", label, {"alpha": alpha},
            Training(experiment(method, alpha, clip), options.inner_steps), ours=bool(clip),
        )
        for label, method, clip in plan for alpha in (LOOK if options.quick else ALPHAS)
    ]  # fmt: skip


def rows(results: Results[TrainingOptions, Training, Measurement]) -> list[Row]:
    """One row for each method and step size; ours stands beside the paper's MT-net."""
    published = {(label, alpha): n for label, _, numbers in TABLE for alpha, n in zip(ALPHAS, numbers, strict=True)}
    return [
        error_row(
            cell, measurement, SHOTS, published["MT-net" if cell.ours else cell.label, float(cell.setting["alpha"])]
        )
        for cell, measurement in results.pairs
    ]


def figures(results: Results[TrainingOptions, Training, Measurement]) -> list[Figure]:
    """Error against step size and against inner steps, training curves, adapted curves."""
    groups = {
        label: [
            (f"alpha {cell.setting['alpha']:g}", measurement)
            for cell, measurement in results.pairs
            if cell.label == label
        ]
        for label in dict.fromkeys(cell.label for cell, _ in results.pairs)
    }
    return [
        _by_alpha(rows(results)),
        error_by_inner_steps(groups),
        training_curves(groups),
        adapted_curves([(cell, measurement) for cell, measurement in results.pairs if cell.setting["alpha"] in LOOK]),
    ]


def _by_alpha(rows: list[Row]) -> Figure:
    data = [(r.method, r.setting["alpha"], r.mean, r.interval95, r.seed_std) for r in rows]
    paper = [
        (f"{r.method}, paper", r.setting["alpha"], r.published, r.published_interval95, None)
        for r in rows
        if not r.ours
    ]
    panels: dict[str, Points] = {"measured here": [*data], "the paper": [*paper]}
    return Figure(
        "error-by-alpha", "Error against the step size",
        "Mean squared error after one step at 10 shots, measured here and, on the right, as the paper prints it; the "
        "band is the 95% interval over tasks. A point that is missing has no finite mean.",
        [
            lines(title, [row[:4] for row in some], "alpha", xscale="log", yscale="log")
            for title, some in panels.items()
        ],
        ("method", "alpha", "mean", "interval95", "seed_std"), data + paper,
    )  # fmt: skip


STUDY = Study("step-size", TRAININGS, cells, rows, figures, full=TrainingOptions(), quick=QUICK)
