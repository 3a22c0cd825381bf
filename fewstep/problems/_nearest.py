"""Baselines that need no training, evaluated on the same tasks as a model: nearest class means, and on features of an
encoder logistic regression too."""

from collections.abc import Mapping

import jax

from fewstep._learner import Learner
from fewstep.evaluation import make_evaluate, summarize
from fewstep.learners import color_histogram, logistic, metric, nearest_mean, pixels
from fewstep.problems._kind import Plan, Problem, Say
from fewstep.problems._rows import ScoreRow

_FEATURES = {"nearest mean of pixels": pixels, "nearest mean of color histograms": color_histogram}


def nearest_means(problem: Problem, plan: Plan, say: Say) -> dict[str, list[ScoreRow]]:
    """The rows of each baseline of images, by its name."""
    ways = plan.ways or problem.outputs
    return _rows(problem, plan, {name: nearest_mean(features, ways) for name, features in _FEATURES.items()}, say)


def nearest_features(problem: Problem, plan: Plan, say: Say) -> dict[str, list[ScoreRow]]:
    """The rows of nearest class mean (by cosine) and logistic regression on the features of an encoder: as they are
    before any training, centered and of one length."""
    ways, (features, width) = plan.ways or problem.outputs, problem.details.features()
    learners = {
        "nearest mean of features": metric(features, width, ways, rank=1),
        "logistic regression on features": logistic(features, ways),
    }
    return _rows(problem, plan, learners, say)


def _rows(
    problem: Problem, plan: Plan, learners: Mapping[str, Learner], say: Say
) -> dict[str, list[ScoreRow]]:  # fmt: skip
    ways, queries = plan.ways or problem.outputs, plan.queries or 1
    rows: dict[str, list[ScoreRow]] = {name: [] for name in learners}
    for shots in plan.shots:
        tasks = problem.tasks(shots, queries, plan.split, ways)
        for name, learner in learners.items():
            say(f"Evaluating the {name}: {ways}-way {shots}-shot.")
            scores = make_evaluate(
                learner, tasks, problem.score, steps=(0,), n_tasks=plan.n_tasks or 600, seed=plan.seed
            )  # fmt: skip
            score = summarize(shots, 0, scores(learner.init(jax.random.key(0)), tasks.data)[:, 0])
            rows[name].append(ScoreRow(
                plan.split, shots, None, problem.metric, score.mean, score.interval95, score.n_tasks, ways=ways,
                queries=queries,
            ))  # fmt: skip
    return rows
