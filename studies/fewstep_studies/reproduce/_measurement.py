"""What is measured of a training, as records that a file keeps."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fewstep._errors import FewstepError
from fewstep.experiments import Experiment
from fewstep.files import JSON
from fewstep.problems import ExampleEpisode, ScoreRow
from fewstep_studies.reproduce._rows import Changes, Published, Row, Setting, compare, read_record
from fewstep_studies.reproduce._study import Cell


class ImageTest(NamedTuple):
    """How a cell of images is evaluated: at the ways, shots and queries of each of `tests`, its rows after `steps`, the
    paper's number first; `on_support`: on what it learned from as well; `episodes`: some are drawn."""

    tests: tuple[tuple[int, int, int], ...]
    steps: tuple[int, ...] = (0,)
    on_support: bool = False
    episodes: bool = True


class Training(NamedTuple):
    """The plan of a cell that is a training.

    It is evaluated after each of `inner_steps` with the shots of its training, and after `others` with the other
    `shots`. `elsewhere` are other tasks that it is tested on too: what differs from its own, by a name.
    """

    experiment: Experiment
    inner_steps: tuple[int, ...]
    shots: tuple[int, ...] = ()
    elsewhere: tuple[tuple[str, Changes], ...] = ()
    images: ImageTest | None = None
    others: tuple[int, ...] = (1,)

    @property
    def length(self) -> int:
        """Its outer steps."""
        return self.experiment.steps

    @property
    def work(self) -> int:
        """The tasks that it draws."""
        return self.experiment.steps * self.experiment.meta_batch


class Score(NamedTuple):
    """A score over test tasks; a mean that is not finite is nothing."""

    mean: float | None = None
    interval95: float | None = None
    median: float | None = None
    seed_std: float | None = None
    n_tasks: int | None = None
    shots: int | None = None
    inner_steps: int | None = None
    diverged_tasks: int = 0
    ways: int | None = None
    norm: str | None = None
    transductive: bool = True


class Validation(NamedTuple):
    """The validation error of every seed at a step."""

    step: int
    errors: Sequence[float | None]


class TaskCurve(NamedTuple):
    """An unseen task: its true curve, the network before and after one step, and the support."""

    x: list[float]
    true: list[float]
    before: list[float]
    after: list[float]
    support_x: list[float]
    support_y: list[float]


class Updated(NamedTuple):
    """The share of weights that a task moves, of one seed: layer by layer, and in three averages."""

    seed: int
    layers: Mapping[str, float]
    by_logit: float
    by_layer: float
    by_parameter: float


class Measurement(NamedTuple):
    """What was measured of a training; `times` are steps and the seconds after which they were reached."""

    seconds: float
    steps_per_second: float | None = None
    diverged_at: int | None = None
    commit: str | None = None
    diverged_seeds: int = 0
    scores: Sequence[Score] = ()
    elsewhere: Mapping[str, Sequence[Score]] = {}
    on_support: Sequence[Score] = ()
    training: Sequence[Validation] = ()
    times: Sequence[tuple[int, float]] = ()
    curves: Sequence[TaskCurve] = ()
    inside: Sequence[Updated] = ()
    episodes: Sequence[ExampleEpisode] = ()


def scores_of(rows: Sequence[ScoreRow]) -> list[Score]:
    """The scores of an evaluation."""
    return [read_record(Score, row.to_json()) for row in rows]


def make_row(
    cell: Cell[Training], measurement: Measurement, score: Score | None, *, metric: str, setting: Setting,
    published: Published = None, **more: JSON,
) -> Row:  # fmt: skip
    """The row of one score, which is missing where every seed diverged."""
    verdict = "diverged"
    if score is not None:
        verdict = compare(score.mean, score.interval95, published, higher=metric == "accuracy")
    known = score or Score()
    return Row(
        cell.label, setting, metric, known.mean, known.interval95, known.median, known.seed_std, known.n_tasks,
        cell.plan.experiment.seeds, measurement.diverged_seeds, known.diverged_tasks,
        published and published[0], published and published[1], verdict, cell.ours, measurement.seconds, cell.name,
        cell.plan.experiment.steps,
        more=more,
    )  # fmt: skip


def error_row(cell: Cell[Training], measurement: Measurement, shots: int, published: Published) -> Row:
    """The row of one cell's error after one step, beside the paper's."""
    lost = measurement.diverged_seeds == cell.plan.experiment.seeds
    score = None if lost else next(s for s in measurement.scores if (s.shots, s.inner_steps) == (shots, 1))
    return make_row(
        cell, measurement, score, metric="mse", setting={**cell.setting, "shots": shots}, published=published
    )


def image_test(cell: Cell[Training]) -> ImageTest:
    """How a cell of images is evaluated."""
    if cell.plan.images is None:
        raise FewstepError(f"{cell.name} is not a cell of images.")
    return cell.plan.images
