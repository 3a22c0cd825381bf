"""The verdict: whether learning from a task's rows pays, in one sentence, with the interval over tasks as pairs."""

import json

import numpy as np
import pytest

from fewstep.models import judge, judge_errors
from fewstep.problems import Answers


def errors(gain, tasks=12, noise=0.02, seed=0):
    """Mean squared errors of tasks of unequal difficulty, and of a reference; the root differs by a gain."""
    random = np.random.default_rng(seed)
    other = random.lognormal(2.5, 0.7, tasks)
    return other * (1 - gain) ** 2 * np.exp(random.normal(0, noise, tasks)), other


def regression(own_noise, other_noise, tasks=30, seed=0):
    """Answers of a model and of a reference with known noise, of two targets, where some rows do not count."""
    random = np.random.default_rng(seed)
    y = random.normal(size=(tasks, 3, 20, 2))
    weight = np.ones((tasks, 3, 20))
    weight[:, :, 15:] = 0

    def made(noise):
        mean = (y + random.normal(0, noise, y.shape) + 1e9 * (1 - weight[..., None]))[:, :, None]
        return Answers(mean, 0 * mean, mean[None], y, weight)

    return made(own_noise), made(other_noise)


class TestSentences:
    def test_it_pays(self):
        verdict = judge_errors(*errors(0.04), shots=5)
        assert verdict.decision == "use"
        assert verdict.low < verdict.improvement < verdict.high
        assert verdict.improvement == pytest.approx(0.04, abs=0.02)
        assert verdict.sentence.startswith(f"Learning from 5 rows: error {verdict.error:.3g}, 4% better than a pooled")
        assert verdict.sentence.endswith(f"better on {verdict.better} of 12 tasks: use it.")

    def test_it_harms(self):
        verdict = judge_errors(*errors(-0.2), shots=1)
        assert verdict.decision == "pooled"
        assert verdict.sentence.startswith("Learning from 1 row: error")
        assert "% worse than a pooled model (" in verdict.sentence
        assert "better on 0 of 12 tasks; adapting does not help here: use the pooled model." in verdict.sentence
        low, high = (int(end.strip("%")) for end in verdict.sentence.partition("(")[2].partition(")")[0].split(" to "))
        assert 15 < low <= 20 <= high < 25

    def test_nobody_knows(self):
        verdict = judge_errors(*errors(0.02, noise=0.3), shots=5)
        assert verdict.decision == "undecided"
        assert verdict.low < 0 < verdict.high
        assert f"{verdict.pooled:.3g} of a pooled model" in verdict.sentence
        assert "the difference is within noise (-" in verdict.sentence

    def test_a_gain_that_is_surely_tiny_is_none(self):
        own, other = errors(0.0, noise=0.0)
        verdict = judge_errors(own, other, shots=5)
        assert (verdict.decision, verdict.better) == ("pooled", 0)
        verdict = judge_errors(own * 0.99999, other, shots=5)
        assert verdict.sentence.endswith("adapting does not help here: use the pooled model.") == (verdict.low <= 0)

    def test_one_task_cannot_tell_and_what_diverged_is_not_used(self):
        verdict = judge_errors([1.0], [4.0], shots=5)
        assert verdict.decision == "undecided"
        assert "one held-out task cannot tell" in verdict.sentence
        verdict = judge_errors([1.0, np.nan, np.inf], [4.0, 4.0, 4.0], shots=5)
        assert verdict.sentence == "Learning from 5 rows diverges on 2 of 3 tasks: use the pooled model."


class TestInterval:
    def test_it_pairs_the_tasks(self):
        """Tasks differ by more than the models do: without pairs nothing would be seen."""
        own, other = errors(0.04, noise=0.01)
        assert judge_errors(own, other, shots=5).decision == "use"
        assert judge_errors(own, np.roll(other, 1), shots=5).decision == "undecided"

    def test_it_holds_the_truth_as_often_as_it_says(self):
        inside = [
            verdict.low <= 0.1 <= verdict.high
            for verdict in (judge_errors(*errors(0.1, 40, 0.2, seed), shots=5) for seed in range(300))
        ]  # a small bias: the ratio of means is that of these tasks
        assert 0.9 <= np.mean(inside) <= 0.99

    def test_tasks_of_a_group_count_once(self):
        """Ten years of each of four stations tell no more than four stations, where a station's years are alike."""
        own, other = (np.repeat(each, 10) for each in errors(0.1, 4, 0.15))
        alone, grouped = (judge_errors(own, other, shots=5, units=u) for u in (None, np.arange(40) // 10))
        assert alone.decision == "use"
        assert grouped.decision == "undecided"
        assert (alone.error, alone.improvement) == (grouped.error, pytest.approx(grouped.improvement))
        assert f"better on {grouped.better} of 4 groups" in grouped.sentence
        once = judge_errors(own[::10], other[::10], shots=5)
        assert (grouped.low, grouped.high) == (pytest.approx(once.low), pytest.approx(once.high))


class TestAnswers:
    def test_of_numbers_by_scale_and_weight(self):
        verdict = judge(*regression(0.5, 1.0), shots=5, scale=np.asarray([3.0, 3.0]))
        assert verdict.error == pytest.approx(1.5, rel=0.1)
        assert verdict.pooled == pytest.approx(3.0, rel=0.1)
        assert (verdict.better, verdict.tasks, verdict.accuracy) == (30, 30, None)
        assert json.loads(json.dumps(verdict.to_json()))["sentence"] == verdict.sentence

    def test_of_classes_by_log_loss_with_the_accuracy_in_words(self):
        random = np.random.default_rng(0)
        y = random.integers(0, 2, (20, 2, 15)).astype(float)

        def made(sure):
            own = np.stack([1 - y, y], -1)
            mean = (sure * own + (1 - sure) * random.dirichlet((2, 2), y.shape))[:, :, None]
            return Answers(mean, 0 * mean, mean[None], y, np.ones(y.shape))

        verdict = judge(made(0.6), made(0.1), shots=3, classes=True)
        assert (verdict.metric, verdict.decision) == ("log loss", "use")
        assert verdict.accuracy[0] > verdict.accuracy[1]
        assert f"(accuracy {verdict.accuracy[0]:.0%}, pooled {verdict.accuracy[1]:.0%})" in verdict.sentence
