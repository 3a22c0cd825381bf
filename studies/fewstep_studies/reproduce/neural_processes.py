"""Neural processes on curves from Gaussian processes, beside the exact posterior: the best that can be predicted."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from fewstep._episode import Episode
from fewstep._outer import task_keys
from fewstep._rule import Meta
from fewstep._streams import TEST
from fewstep.experiments import Experiment
from fewstep.learners import log_likelihood
from fewstep.losses import weighted_mean
from fewstep.machine.provenance import commit
from fewstep.models import Model
from fewstep.runs import Progress, load
from fewstep.tasks import KernelName, Prior, gaussian_process, posterior, prior_of
from fewstep_studies.reproduce import _training
from fewstep_studies.reproduce._figure import Figure, keys, lines, rows_of
from fewstep_studies.reproduce._measurement import Training
from fewstep_studies.reproduce._rows import Row, compare, read_record
from fewstep_studies.reproduce._study import Cell, Results, Runner, Study, TrainingOptions

KERNELS: tuple[KernelName, ...] = ("rbf", "matern", "periodic")
POINTS = 46  # of a support at most, and of a query
EXACT, METRIC = "exact posterior", "log-likelihood"
# The mean log-likelihood of a target point in Nguyen & Grover, 2022, for networks that were trained on RBF; the exact
# posterior was computed for 3,000 tasks, with its 95% interval.
PUBLISHED: dict[str, tuple[tuple[float, float | None], ...]] = {
    EXACT: ((1.545, 0.030), (1.129, 0.031), (1.166, 0.035)),
    "np": ((1.39, None), (0.95, None), (-3.53, None)),
    "anp": ((0.81, None), (0.63, None), (-5.0, None)),
}
_BLOCK = 50  # tasks that are evaluated at once
_SIZES = (3, 10, 20, 30, 46)  # ends of the groups that supports are put into by their size


class Evaluation(NamedTuple):
    """The plan of a cell: a training that is evaluated with each kernel, or, without one, the exact posterior."""

    experiment: Experiment | None = None

    @property
    def length(self) -> int:
        """Its outer steps."""
        return 1 if self.experiment is None else self.experiment.steps

    @property
    def work(self) -> int:
        """The tasks that it draws."""
        return 1 if self.experiment is None else self.experiment.steps * self.experiment.meta_batch


class Score(NamedTuple):
    """The log-likelihood of a target point, the mean over tasks; `by_size`: the support's size, mean and interval."""

    kernel: str
    mean: float
    interval95: float
    n_tasks: int
    by_size: list[tuple[float, float, float]]


class Found(NamedTuple):
    """What was measured of a cell."""

    scores: list[Score]
    seconds: float
    steps_per_second: float | None = None
    commit: str | None = None


Pair = tuple[Cell[Evaluation], Found]


def cells(options: TrainingOptions) -> list[Cell[Evaluation]]:
    """The exact posterior, the transformer, and the attentive process with half as many steps."""
    steps = {"np": options.steps, "anp": max(1, options.steps // 2)}
    trainings = [
        Cell(name, name, {}, Evaluation(_experiment(options, name, count)))
        for name, count in steps.items()
    ]  # fmt: skip
    return [Cell("exact", EXACT, {}, Evaluation()), *trainings]


def _experiment(options: TrainingOptions, method: str, steps: int) -> Experiment:
    """Trained on RBF; all points of a query count, since they cost the same."""
    return Experiment(
        method, "gaussian-process", shots=POINTS, queries=POINTS, max_rows=0, steps=steps, seeds=options.seeds,
        seed=options.seed, log_every=min(100, max(1, steps // 20)), validate_every=max(1, steps // 20),
        validation_tasks=200,
    )  # fmt: skip


def run(cell: Cell[Evaluation], path: Path, options: TrainingOptions, progress: Progress) -> Found | None:
    """Trains the cell, if it is a training, and evaluates it; nothing if a signal stopped it."""
    begin, experiment = time.monotonic(), cell.plan.experiment
    if experiment is None:
        scores = [score(kernel, exact(kernel), options) for kernel in KERNELS]
        return Found(scores, time.monotonic() - begin, commit=commit())
    trained = _training.trained(_as_training(cell, experiment), path, progress)
    if trained is None:
        return None
    model = load(path)
    scores = [score(kernel, _learned(kernel, model), options) for kernel in KERNELS]
    return Found(scores, trained.seconds, trained.steps_per_second, trained.commit)


Block = Callable[[Key[Array, " tasks"]], tuple[Float[Array, " tasks"], Array]]  # log-likelihoods, sizes of supports


def score(kernel: str, block: Block, options: TrainingOptions) -> Score:
    """The log-likelihood of test tasks, which `block` gives of a few at a time."""
    key = jax.random.fold_in(jax.random.key(options.seed), TEST)
    parts = []
    for start in range(0, options.n_tasks, _BLOCK):
        keys, _ = task_keys(key, jnp.arange(start, min(start + _BLOCK, options.n_tasks)))
        parts.append([np.asarray(part, float) for part in block(keys)])
    values, sizes = (np.concatenate(part) for part in zip(*parts, strict=True))
    groups = [(sizes > low) & (sizes <= high) for low, high in zip((0, *_SIZES), _SIZES, strict=False)]
    by_size = [(float(sizes[some].mean()), *_interval(values[some])) for some in groups if some.sum() > 1]
    return Score(kernel, *_interval(values), len(values), by_size)


def _interval(values: np.ndarray) -> tuple[float, float]:
    """The mean and its 95% interval."""
    return float(values.mean()), float(1.96 * values.std(ddof=1) / len(values) ** 0.5)


def exact(kernel: KernelName) -> Block:
    """The exact posterior, in float64, of tasks that are drawn in float32."""
    tasks = gaussian_process(POINTS, POINTS, kernel=kernel)
    draw = jax.jit(jax.vmap(lambda key: (tasks.sample(tasks.data, key), prior_of(tasks.data, key))))

    def likelihood(episode: Episode, prior: Prior) -> tuple[Array, Array]:
        support, query = episode
        mean, sd = posterior(kernel, prior, support, query.x)
        return weighted_mean(log_likelihood(mean, sd, query.y), query.weight), jnp.sum(support.weight)

    likelihoods = jax.jit(jax.vmap(likelihood))

    def block(keys: Key[Array, " tasks"]) -> tuple[Array, Array]:
        drawn = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), draw(keys))
        with jax.enable_x64(True):
            return likelihoods(*drawn)

    return block


def _learned(kernel: KernelName, model: Model) -> Block:
    """A trained model: the mean over its seeds."""
    tasks, learner = gaussian_process(POINTS, POINTS, kernel=kernel), model.built.learner

    def one(meta: Meta, key: Key[Array, ""]) -> tuple[Array, Array]:
        episode = tasks.sample(tasks.data, key)
        return -learner.loss(meta, key, episode), jnp.sum(episode.support.weight)

    several = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))

    def block(keys: Key[Array, " tasks"]) -> tuple[Array, Array]:
        values, sizes = several(model.stacked, keys)
        return values.mean(0), sizes[0]

    return block


def rows(results: Results[TrainingOptions, Evaluation, Found]) -> list[Row]:
    """One row for each method and kernel."""
    return [
        row(cell, found, some)
        for cell, found in results.pairs for some in found.scores
    ]  # fmt: skip


def row(cell: Cell[Evaluation], found: Found, score: Score) -> Row:
    """The row of one score, beside the published one."""
    published = PUBLISHED[cell.label][KERNELS.index(score.kernel)]
    verdict = compare(score.mean, score.interval95, published, higher=True)
    if cell.plan.experiment is None:  # not a bar to reach but a number to give again
        verdict = compare(abs(score.mean - published[0]), score.interval95, (0.0, published[1]))
    return Row(
        cell.label, {"kernel": score.kernel}, METRIC, score.mean, score.interval95, n_tasks=score.n_tasks,
        seeds=1 if cell.plan.experiment is None else cell.plan.experiment.seeds, published=published[0],
        published_interval95=published[1], verdict=verdict, seconds=found.seconds, cell=cell.name,
        steps=cell.plan.length if cell.plan.experiment else None,
    )  # fmt: skip


def figures(results: Results[TrainingOptions, Evaluation, Found]) -> list[Figure]:
    """The log-likelihood against the size of the support, a panel for each kernel."""
    data = [
        (score.kernel, cell.label, *point)
        for cell, found in results.pairs for score in found.scores for point in score.by_size
    ]  # fmt: skip
    panels = [lines(k, rows_of(data, k), "points of the support", "log-likelihood of a point") for k in keys(data)]
    return [Figure(
        "by-size", "Log-likelihood by the size of the support",
        "The mean over test tasks in five groups of supports; the band is the 95% interval over tasks. Nothing that "
        "knows the support alone can be above the exact posterior in expectation.",
        panels, ("kernel", "method", "points", "mean", "interval95"), data,
    )]  # fmt: skip


def prepare(cells: list[Cell[Evaluation]]) -> None:
    """Makes the devices of the trainings."""
    experiments = [(cell, cell.plan.experiment) for cell in cells]
    _training.make_devices([_as_training(cell, it) for cell, it in experiments if it is not None])


def _as_training(cell: Cell[Evaluation], experiment: Experiment) -> Cell[Training]:
    return Cell(cell.name, cell.label, cell.setting, Training(experiment, (0,)))


STUDY = Study(
    "neural-processes", Runner(run, partial(read_record, Found), prepare=prepare), cells, rows, figures,
    full=TrainingOptions(seeds=1, steps=20_000, n_tasks=6_000),
    quick=TrainingOptions(seeds=1, steps=60, n_tasks=500, quick=True), paper={"n_tasks": 3000},
    free=("only",),
)  # fmt: skip
