"""Baselines for runs on images, which need no training: nearest class means, judged on the same tasks as the run."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax

from fewstep.evaluation import make_evaluate, summarize
from fewstep.experiments.learners import trained_ways
from fewstep.learners import color_histogram, nearest_mean, pixels
from fewstep.problems.problem import problem
from fewstep.runs.model import Model, Row

_FEATURES = {"nearest mean of pixels": pixels, "nearest mean of color histograms": color_histogram}


def image_baselines(
    model: Model,
    *,
    shots: tuple[int, ...],
    n_tasks: int = 600,
    queries: int | None = None,
    ways: int | None = None,
    split: str = "test",
    seed: int = 0,
    say: Callable[[str], None] = lambda message: None,
    changes: dict[str, Any] | None = None,
) -> dict[str, list[Row]]:
    """The rows of each baseline, by its name; the arguments and the tasks are those of `evaluate_run`."""
    experiment = dataclasses.replace(model.run.experiment, **(changes or {}))
    asked, many = ways or trained_ways(experiment), queries or experiment.queries
    assert asked is not None
    made: dict[str, list[Row]] = {name: [] for name in _FEATURES}
    for number in shots:
        tasks = problem(experiment).tasks(number, many, split, asked)
        for name, features in _FEATURES.items():
            say(f"Judging the {name}: {asked}-way {number}-shot.")
            learner = nearest_mean(features, asked)
            judge = make_evaluate(learner, tasks, model.built.problem.score, steps=(0,), n_tasks=n_tasks, seed=seed)
            score = summarize(number, 0, judge(learner.init(jax.random.key(0)), tasks.data)[:, 0])
            made[name].append({
                "split": split, "shots": number, "inner_steps": None, "metric": model.built.problem.metric,
                "mean": score.mean, "interval95": score.interval95, "n_tasks": n_tasks, "ways": asked, "queries": many,
            })  # fmt: skip
    return made


def better_baseline(rows: list[Row], baselines: dict[str, list[Row]]) -> tuple[str, Row, float] | None:
    """The baseline that is most ahead of the run's best row at the same number of shots, its row, and that best row's
    mean; nothing if the run is ahead of all."""
    best: dict[int, float] = {}
    for row in rows:
        mean = row["mean"] if math.isfinite(row["mean"]) else 0.0
        best[row["shots"]] = max(best.get(row["shots"], 0.0), mean)
    ahead = [(row["mean"] - best[row["shots"]], name, row) for name, some in baselines.items() for row in some]
    lead, name, row = max(ahead, key=lambda entry: entry[0])
    return (name, row, best[row["shots"]]) if lead > 0 else None
