"""Sine waves with five inner steps in training and test: the published values of GAP, and what our best chain gives."""

from fewstep_studies.reproduce._curve_figures import training_curves
from fewstep_studies.reproduce._figure import Figure, lines
from fewstep_studies.reproduce._measurement import Measurement, Training, make_row
from fewstep_studies.reproduce._rows import Changes, Row
from fewstep_studies.reproduce._study import Cell, Results, Study, TrainingOptions
from fewstep_studies.reproduce._training import TRAININGS, curve_experiment

METHOD = "metric+rates+curvature"
STEPS, TEST_SHOTS = 5, (5, 10, 20)
PUBLISHED = {5: 0.16, 10: 0.04, 20: 0.01}  # GAP, Kang et al., CVPR 2023; its protocol is not in the released code
_CHAIN: Changes = {"inner_steps": STEPS, "outer_lr": 0.002, "schedule": "cosine"}
TRAINED: dict[str, Changes] = {"10 shots": {"shots": 10}, "5 to 20 shots": {"shots": 20, "min_shots": 5}}


def cells(options: TrainingOptions) -> list[Cell[Training]]:
    """The chain trained with 10 shots, and with 5 to 20 of them."""
    experiment = lambda own: curve_experiment(options, METHOD, "sinusoid", **_CHAIN, **own)
    return [
        Cell(
            title.replace(" ", "-"), f"{METHOD}, trained with {title}", {},
            Training(experiment(own), (0, 1, STEPS, 10), TEST_SHOTS, others=(STEPS,)), ours=True,
        )
        for title, own in TRAINED.items()
    ]  # fmt: skip


def rows(results: Results[TrainingOptions, Training, Measurement]) -> list[Row]:
    """The error after five steps for each number of shots, beside GAP's."""
    found = []
    for cell, measurement in results.pairs:
        scores = {score.shots: score for score in measurement.scores if score.inner_steps == STEPS}
        for shots in TEST_SHOTS:
            setting = {**cell.setting, "shots": shots}
            published = (PUBLISHED[shots], None)
            found.append(
                make_row(cell, measurement, scores.get(shots), metric="mse", setting=setting, published=published)
            )
    return found


def figures(results: Results[TrainingOptions, Training, Measurement]) -> list[Figure]:
    """Error against the number of shots, and the trainings."""
    data = [(row.method, row.setting["shots"], row.mean, row.interval95) for row in rows(results)]
    data += [("GAP, published", shots, value, 0.0) for shots, value in PUBLISHED.items()]
    return [
        Figure(
            "error-by-shots", "Five inner steps: error against the number of shots",
            "Mean squared error on unseen sine waves after five steps; the band is the 95% interval over tasks.",
            [lines("", data, "shots", yscale="log")], ("method", "shots", "mean", "interval95"), data,
        ),
        training_curves({METHOD: [(cell.name, measurement) for cell, measurement in results.pairs]}),
    ]  # fmt: skip


STUDY = Study(
    "five-steps", TRAININGS, cells, rows, figures, full=TrainingOptions(n_tasks=5_000),
    quick=TrainingOptions(seeds=1, steps=300, n_tasks=100, quick=True),
)  # fmt: skip
