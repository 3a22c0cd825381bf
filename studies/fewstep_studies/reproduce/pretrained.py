"""Start from a pretrained encoder: what each method gains on its features, of photographs and of texts."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.experiments import Experiment
from fewstep_studies.reproduce._figure import Figure, Panel, keys, lines, rows_of
from fewstep_studies.reproduce._measurement import ImageTest, Measurement, Training, image_test, make_row
from fewstep_studies.reproduce._rows import Changes, Result, Row, with_verdicts
from fewstep_studies.reproduce._study import Cell, Results, Study, Table, TrainingOptions
from fewstep_studies.reproduce._training import TRAININGS, UNCLIPPED

NEAREST = "nearest mean"
TRAIN_WAYS, TEST_WAYS, SHOTS, QUERIES = 20, (5, 20), (1, 5), 10
_CLINC = Path("text", "clinc150.csv")
_QUICK: Changes = {"per_class": 12, "validation_tasks": 4, "seeds": 1}


class _Set(NamedTuple):
    """A data set: its title, its tasks, options of its kind, and `blocks` where the last blocks are trained too."""

    title: str
    tasks: Callable[[], str]
    settings: Changes
    blocks: Changes
    quick: Changes = {}  # noqa: RUF012


class _Method(NamedTuple):
    """A method: its label, its name, its own settings, its part of the outer steps (0: it is not trained); with
    `blocks` the last blocks of the encoder are meta-trained too, on one seed."""

    label: str
    name: str
    settings: Changes = {}  # noqa: RUF012
    part: float = 1.0
    blocks: bool = False
    inner_steps: tuple[int, ...] = (0,)


def _clinc() -> str:
    """CLINC150 where it lies among the data."""
    here = (folder / _CLINC for folder in data.folders())
    return f"text:{next((path for path in here if path.is_file()), _CLINC)}"


SETS = {
    "cifar-fs": _Set(
        "CIFAR-FS", lambda: "cifar-fs", {"encoder": "efficientnet-lite0", "validation_ways": 5},
        {"encoder_depth": 2, "per_class": 60}, {"encoder_size": 32},
    ),
    "clinc150": _Set(
        "CLINC150", _clinc, {"encoder": "minilm-l6", "split": "clinc150", "validation_ways": 20},
        {"encoder_depth": 1, "encoder_max_tokens": 20, "per_class": 40}, {"encoder_max_tokens": 16},
    ),
}  # fmt: skip
METHODS = {
    "nearest": _Method(NEAREST, "metric", {"rank": 1}, part=0),
    "logistic": _Method("logistic regression", "logistic", part=0),
    "discriminant": _Method("metric in closed form", "metric", part=0),
    "prototypes": _Method("prototypes", "prototypes"),
    "metric": _Method("prototypes + metric", "metric"),
    "ridge": _Method("ridge regression", "ridge"),
    "maml": _Method("MAML", "maml", UNCLIPPED, inner_steps=(1,)),
    "mtnet": _Method("MT-net", "mtnet", UNCLIPPED, inner_steps=(1,)),
    "metric-blocks": _Method("prototypes + metric, last blocks", "metric", part=0.5, blocks=True),
    "mtnet-blocks": _Method("MT-net, last blocks", "mtnet", UNCLIPPED, part=0.25, blocks=True, inner_steps=(1,)),
}


def cells(options: TrainingOptions) -> list[Cell[Training]]:
    """Each method on each data set, with 1 and with 5 shots."""
    shots = SHOTS[:1] if options.quick else SHOTS
    return [_cell(options, of, method, count) for of in SETS for method in METHODS for count in shots]


def _cell(options: TrainingOptions, of: str, method: str, shots: int) -> Cell[Training]:
    own = METHODS[method]
    test = ImageTest(tuple((ways, shots, QUERIES) for ways in TEST_WAYS), own.inner_steps, episodes=False)
    plan = Training(_experiment(options, SETS[of], own, shots), own.inner_steps, images=test)
    return Cell(f"{of}-{method}-{shots}shot", own.label, {}, plan, groups=(of, method, f"{shots}shot"))


def _experiment(options: TrainingOptions, of: _Set, method: _Method, shots: int) -> Experiment:
    """Trained with 20 ways, as the harder of the tests, and one task per step."""
    steps = round(method.part * options.steps)
    every = max(1, steps // (5 if method.blocks else 10))
    sizes: Changes = {
        "seed": options.seed, "seeds": options.seeds if method.part and not method.blocks else 1, "steps": steps,
        "shots": shots, "ways": TRAIN_WAYS, "queries": 5, "meta_batch": 1, "log_every": every, "validate_every": every,
        "validation_tasks": 30 if method.blocks else 200,
    }  # fmt: skip
    own = {**of.settings, **(of.blocks if method.blocks else {}), **method.settings}
    return Experiment(method.name, of.tasks(), **{**sizes, **own, **({**of.quick, **_QUICK} if options.quick else {})})


def _prepare(cells: list[Cell[Training]]) -> None:
    """Says that the texts are missing, before anything is trained."""
    if any(cell.plan.experiment.tasks == f"text:{_CLINC}" for cell in cells) and not _CLINC.is_file():
        raise FewstepError(
            f"There is no {_CLINC} in the folder for data. CLINC150 is on GitHub, in clinc/oos-eval: put it there as a "
            "CSV of text and intent and say where with FEWSTEP_DATA, or take the photographs alone: `only` cifar-fs."
        )
    TRAININGS.prepare(cells)


def rows(results: Results[TrainingOptions, Training, Measurement]) -> list[Row]:
    """Each cell at 5 and 20 ways; a trained one is compared with the nearest mean of the same features."""
    found = [row for cell, measurement in results.pairs for row in _rows(cell, measurement)]
    return with_verdicts(found, _claim)


def _rows(cell: Cell[Training], measurement: Measurement) -> list[Row]:
    scores = {score.ways: score for score in measurement.scores}
    return [
        make_row(
            cell, measurement, scores.get(ways), metric="accuracy",
            setting={"data": SETS[cell.groups[0]].title, "ways": ways, "shots": shots},
            training_seconds=_seconds(cell, measurement),
        )
        for ways, shots, _ in image_test(cell).tests
    ]  # fmt: skip


def _claim(row: Row, rows: list[Row]) -> str | None:
    """Whether a row is above the nearest mean by more than the 95% interval of the difference."""
    nearest = next((other for other in rows if other.method == NEAREST and other.setting == row.setting), None)
    if nearest is None or row is nearest or row.mean is None or nearest.mean is None:
        return None
    gain, interval = row.mean - nearest.mean, ((row.interval95 or 0) ** 2 + (nearest.interval95 or 0) ** 2) ** 0.5
    return "above nearest mean" if gain > interval else "below nearest mean" if gain < -interval else "as nearest mean"


def tables(result: Result) -> list[Table]:
    """A table for each data set: a row for each method, with its training time."""
    titles = dict.fromkeys(str(row.setting["data"]) for row in result.rows)
    return [_table(title, [row for row in result.rows if row.setting["data"] == title]) for title in titles]


def _table(title: str, rows: list[Row]) -> Table:
    columns = sorted({(int(row.setting["ways"]), int(row.setting["shots"])) for row in rows})
    head = [title, *(f"{ways}-way {shots}-shot" for ways, shots in columns), "training, s"]
    body = []
    for label in dict.fromkeys(row.method for row in rows):
        own = {(row.setting["ways"], row.setting["shots"]): row for row in rows if row.method == label}
        times = {row.setting["shots"]: row for row in own.values()}
        body.append([
            label, *(_accuracy(own.get(column)) for column in columns),
            " / ".join(f"{seconds:.0f}" if (seconds := times[shots].more["training_seconds"]) else "-"
                       for shots in sorted(times)),
        ])  # fmt: skip
    name = next(name for name, of in SETS.items() if of.title == title)
    return Table(f"pretrained {name}", head, body, title, STUDY.texts.legend)


def _accuracy(row: Row | None) -> str:
    if row is None or row.mean is None:
        return "-" if row is None else "diverged"
    interval = "" if row.interval95 is None else f" ± {100 * row.interval95:.1f}"
    return f"{100 * row.mean:.1f}{interval}"


def _seconds(cell: Cell[Training], measurement: Measurement) -> float | None:
    """The training time of one seed, by the steps per second, so that other work on the machine counts little."""
    rate = measurement.steps_per_second
    return cell.plan.length / rate / cell.plan.experiment.seeds if rate and cell.plan.length else None


def figures(results: Results[TrainingOptions, Training, Measurement]) -> list[Figure]:
    """Accuracy against training time, a panel for each data set, ways and shots."""
    points = [
        (f"{row.setting['data']}, {row.setting['ways']} ways, {row.setting['shots']} shots", row.method,
         max(1.0, row.more["training_seconds"] or 0.0), row.mean, row.interval95)
        for row in rows(results) if row.mean is not None
    ]  # fmt: skip
    return [Figure(
        "accuracy-by-seconds", "Accuracy on the test classes against training time",
        "Each method at the training time of one seed, steps over the steps per second: without computing features, "
        "compiling and validating. At 1 what is not trained. Bars are 95% intervals over the test tasks.",
        [_panel(title, rows_of(points, title)) for title in keys(points)],
        ("setting", "method", "seconds", "accuracy", "interval95"), points,
    )]  # fmt: skip


def _panel(title: str, points: list[tuple]) -> Panel:
    return lines(title, points, "training time in seconds", "accuracy in %", xscale="log", factor=100, bars=True)


STUDY = Study(
    "pretrained", dataclasses.replace(TRAININGS, prepare=_prepare), cells, rows, figures,
    full=TrainingOptions(seeds=3, steps=600), quick=TrainingOptions(seeds=1, steps=4, n_tasks=20, quick=True),
    free=("only",), places=("data_dir",), tables=tables,
)  # fmt: skip
