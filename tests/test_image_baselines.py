"""Nearest class means without training, beside a run on images."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import output
from PIL import Image

from fewstep import tasks
from fewstep.cli._eval import better_baseline
from fewstep.learners import color_histogram, nearest_mean, pixels
from fewstep.models import evaluate_model
from fewstep.problems import Plan, ScoreRow
from fewstep.runs import load

pytestmark = pytest.mark.xdist_group("image baselines")  # one worker makes what they share
NAMES = ["nearest mean of pixels", "nearest mean of color histograms"]
OPTIONS = (
    "--ways", 3, "--queries", 3, "--filters", 2, "--blocks", 1, "--image-size", 8, "--steps", 0,
    "--no-report",
)  # fmt: skip


def photo(number, turn):
    """A color of its own for each class, with its pixels in any order: easy for a histogram, hard for anything else."""
    rng = np.random.default_rng(100 * number + turn)
    image = rng.integers(0, 255, (64, 3))
    image[:40] = (20 * number % 256, 70 * number % 256, 255 - 25 * number % 256)
    return rng.permutation(image).reshape(8, 8, 3).astype(np.uint8)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of no step at all on a folder of ten classes."""
    home = tmp_path_factory.mktemp("baselines")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEWSTEP_CACHE", str(home / "cache"))
        for number in range(10):
            (home / "photos" / f"c{number}").mkdir(parents=True)
            for turn in range(8):
                Image.fromarray(photo(number, turn)).save(home / "photos" / f"c{number}" / f"{turn}.png")
        from fewstep.cli import main

        assert (
            main(
                [
                    str(word)
                    for word in ("train", "prototypes", f"folder:{home}/photos", *OPTIONS, "--run", home / "run")
                ]
            )
            == 0
        )
        yield home / "run"


def task():
    x = jnp.asarray([photo(number, turn) for number in (0, 3, 7) for turn in range(4)]) / 255
    y = jnp.repeat(jnp.arange(3), 4)
    known = jnp.arange(12) % 4 < 2
    return tasks.batch(x[known], y[known]), x[~known], y[~known]


@pytest.mark.parametrize("features", [pixels, color_histogram])
def test_a_class_is_the_mean_of_its_features_and_nothing_is_trained(features):
    support, x, y = task()
    learner = nearest_mean(features, 3)
    meta = learner.init(jax.random.key(0))
    assert jax.tree.leaves(meta) == []
    logits = learner.predict(meta, learner.adapt(meta, jax.random.key(0), support, 0), x)
    means = jnp.stack([features(support.x)[support.y == label].mean(0) for label in range(3)])
    expected = -jnp.square(features(x)[:, None] - means[None]).sum(-1)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    if features is color_histogram:
        assert logits.argmax(1).tolist() == y.tolist()


def test_a_histogram_counts_colors_wherever_they_are():
    x = jnp.asarray([photo(1, 0)]) / 255
    shuffled = jax.random.permutation(jax.random.key(0), x.reshape(64, 3)).reshape(1, 8, 8, 3)
    np.testing.assert_array_equal(color_histogram(x), color_histogram(shuffled))
    np.testing.assert_allclose(jnp.square(color_histogram(x)).sum(), 1, rtol=1e-5)
    assert color_histogram(jnp.ones((2, 4, 4, 1))).shape == (2, 64)  # gray, the brightest included
    corner = jnp.broadcast_to(jnp.asarray([1.0, 0.0, 0.3]), (1, 2, 2, 3))
    assert int(color_histogram(corner)[0].argmax()) == 3 + 4 * 0 + 16 * 1


def test_eval_has_the_baselines_beside_the_run_and_says_when_they_win(run, capsys):
    asked = ("eval", run, "--shots", 2, "--n-tasks", 6)
    code, out, error = output(capsys, *asked, "--json")
    result = json.loads(out)
    assert code == 0
    assert list(result["baselines"]) == NAMES
    for rows in result["baselines"].values():
        (row,) = rows
        assert (row["shots"], row["ways"], row["n_tasks"], row["split"]) == (2, 3, 6, "test")
        assert (row["inner_steps"], row["metric"]) == (None, "accuracy")
    assert result["baselines"][NAMES[1]][0]["mean"] > 0.95
    told = [line for line in error.splitlines() if "baseline" in line]
    assert len(told) == 1
    assert "A baseline without training is ahead of this model: at " in told[0]
    assert "the nearest mean of color histograms has " in told[0]
    code, out, error = output(capsys, *asked)
    assert code == 0
    assert all(name in out for name in NAMES)
    assert error.splitlines()[-1] == told[0]


def test_the_baselines_see_the_tasks_of_the_run(run):
    """A run that is the same learner has the same score."""
    model = load(run)
    method = model.built.method._replace(
        learner=lambda experiment, problem, rule, ways, norm: nearest_mean(pixels, ways)
    )
    built = dataclasses.replace(model.built, method=method)
    twin = dataclasses.replace(model, built=built, metas={0: nearest_mean(pixels, 3).init(jax.random.key(0))})
    plan = Plan((2,), n_tasks=6, queries=3)
    (row,) = evaluate_model(twin, plan, steps=(0,), norms=(None,))
    found = model.kind.baselines(model.problem, plan, print)
    assert found[NAMES[0]][0].mean == row.mean


def test_baselines_can_be_left_out(run, capsys):
    code, out, error = output(capsys, "eval", run, "--shots", 2, "--n-tasks", 6, "--no-baselines", "--json")
    assert (code, json.loads(out)["baselines"]) == (0, {})
    assert "baseline" not in error


def test_a_run_that_is_ahead_is_left_in_peace():
    row = lambda shots, mean: ScoreRow("test", shots, 0, "accuracy", mean, 0.1, 6)
    rows = [row(1, 0.4), row(1, 0.6), row(5, float("nan"))]
    others = {"a": [row(1, 0.5)], "b": [row(1, 0.6)]}
    assert better_baseline(rows, others) == ""
    others["b"].append(row(5, 0.2))
    assert "at 5 shots the b has 0.200, the model at best 0.000." in better_baseline(rows, others)
