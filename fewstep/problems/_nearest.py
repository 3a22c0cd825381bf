"""Baselines for images that need no training: nearest class means, evaluated on the same tasks as a model."""

import jax

from fewstep.evaluation import make_evaluate, summarize
from fewstep.learners import color_histogram, nearest_mean, pixels
from fewstep.problems._kind import Plan, Problem, Say
from fewstep.problems._rows import ScoreRow

_FEATURES = {"nearest mean of pixels": pixels, "nearest mean of color histograms": color_histogram}


def nearest_means(problem: Problem, plan: Plan, say: Say) -> dict[str, list[ScoreRow]]:
    """The rows of each baseline, by its name."""
    ways, queries = plan.ways or problem.outputs, plan.queries or 1
    rows: dict[str, list[ScoreRow]] = {name: [] for name in _FEATURES}
    for shots in plan.shots:
        tasks = problem.tasks(shots, queries, plan.split, ways)
        for name, features in _FEATURES.items():
            say(f"Evaluating the {name}: {ways}-way {shots}-shot.")
            learner = nearest_mean(features, ways)
            scores = make_evaluate(
                learner, tasks, problem.score, steps=(0,), n_tasks=plan.n_tasks or 600, seed=plan.seed
            )  # fmt: skip
            score = summarize(shots, 0, scores(learner.init(jax.random.key(0)), tasks.data)[:, 0])
            rows[name].append(ScoreRow(
                plan.split, shots, None, problem.metric, score.mean, score.interval95, score.n_tasks, ways=ways,
                queries=queries,
            ))  # fmt: skip
    return rows
