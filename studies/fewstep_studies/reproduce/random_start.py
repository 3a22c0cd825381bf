"""Figure 4 of the universality paper: fine-tuned from MAML's start and from a random one, on 20 images."""

import dataclasses

from fewstep_studies.reproduce import omniglot
from fewstep_studies.reproduce._figure import Figure, in_pairs, keys, lines
from fewstep_studies.reproduce._image_figures import accuracy_by_time
from fewstep_studies.reproduce._images import BY_ROW, cost_rows, episode_pages
from fewstep_studies.reproduce._measurement import ImageTest, Measurement, Training, image_test, make_row
from fewstep_studies.reproduce._rows import Row, with_verdicts
from fewstep_studies.reproduce._study import Cell, ImageOptions, Results, Study
from fewstep_studies.reproduce._training import TRAININGS

WAYS = 20
STEPS = (0, 1, 5, 10, 20, 50, 100)
_WITHIN = 0.03
_AHEAD = 0.2


def cells(options: ImageOptions) -> list[Cell[Training]]:
    """MAML as in the Omniglot table, and the same network before any training."""
    ways = 5 if options.quick else WAYS
    known = omniglot.cells(dataclasses.replace(options, shots=(1,)))
    plain = next(cell for cell in known if cell.name == f"maml-{ways}way-1shot")
    plan = Training(plain.plan.experiment, STEPS, images=ImageTest(image_test(plain).tests, STEPS, on_support=True))
    random = plan._replace(experiment=plan.experiment.replace(steps=0))
    maml = dataclasses.replace(plain, plan=plan)
    return [maml, dataclasses.replace(maml, name="random", label="random start", plan=random)]


def rows(results: Results[ImageOptions, Training, Measurement]) -> list[Row]:
    """Accuracy on the support and on the query after each number of steps, transductive as in the papers."""
    return with_verdicts([row for cell, measurement in results.pairs for row in _rows(cell, measurement)], _claim)


def _claim(row: Row, rows: list[Row]) -> bool | None:
    """After the last step MAML's test accuracy is to be near its best, and the random start's far below that."""
    tested = [r.mean for r in rows if r.method == "MAML" and r.more["on"] == "query" and r.mean is not None]
    last = row.more["on"] == "query" and row.setting["inner steps"] == STEPS[-1]
    if not last or not tested or row.mean is None:
        return None
    return row.mean >= max(tested) - _WITHIN if row.method == "MAML" else row.mean <= max(tested) - _AHEAD


def _rows(cell: Cell[Training], measurement: Measurement) -> list[Row]:
    ways, shots, _ = image_test(cell).tests[0]
    return [
        make_row(
            cell, measurement, score, metric="accuracy", on=on,
            setting={"ways": ways, "shots": shots, "inner steps": score.inner_steps or 0, "on": f"the {on}"},
        )
        for on, scores in (("query", measurement.scores), ("support", measurement.on_support))
        for score in scores if score.transductive
    ]  # fmt: skip


def figures(results: Results[ImageOptions, Training, Measurement]) -> list[Figure]:
    """Accuracy against steps, on what was seen and on what was not; and MAML's training."""
    data = [
        (row.method, str(row.more["on"]), row.setting["inner steps"], row.mean, row.interval95)
        for cell, measurement in results.all for row in _rows(cell, measurement)
    ]  # fmt: skip
    kinds = {"query": "test", "support": "training"}
    points = [(f"{start}, {kinds[on]} images", *point) for start, on, *point in data]
    trained = [(cell, measurement) for cell, measurement in results.all if cell.plan.length]
    return [
        Figure(
            "random-start", "Figure 4: fine-tuning from MAML's start and from a random one",
            "Accuracy against gradient steps: solid on the query, dashed on the support that the steps were taken on.",
            [lines("", points, "gradient steps", "accuracy in %", looks=in_pairs(keys(points)), xscale="symlog",
                   factor=100)],
            ("start", "on", "inner_steps", "accuracy", "interval95"), data,
        ),
        accuracy_by_time(trained),
    ]  # fmt: skip


STUDY = Study(
    "random-start",
    TRAININGS, cells, rows, figures, cost=cost_rows, full=ImageOptions(seeds=1, steps=40_000, n_tasks=100),
    quick=ImageOptions(seeds=1, steps=100, n_tasks=50, quick=True), paper={"steps": 5_000, "n_tasks": 100},
    free=BY_ROW, places=("data_dir",), pages=episode_pages,
)  # fmt: skip
