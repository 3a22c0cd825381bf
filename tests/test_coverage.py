"""Intervals of a task that is new: on generated tasks of known noise they hold the share that they promise, also where
tasks differ in how hard they are, and where few tasks are there to calibrate on."""

import json

import numpy as np
import pytest

from fewstep.models import Calibration, calibrate, coverage, coverage_by_task, each_left_out, residual_of
from fewstep.problems import Answers, concatenate
from fewstep.problems._held_out import _residual

SEEDS = range(40)


def answers(tasks, seed, apart=0.4, outputs=1, shots=5, draws=4, rows=30):
    """Errors of tasks whose noise differs by a factor, log-normal; its support shows the noise, as rows do."""
    random = np.random.default_rng(seed)
    noise = np.exp(random.normal(0, apart, (tasks, 1, 1, outputs))) * np.arange(1, outputs + 1)
    y = random.normal(size=(tasks, draws, rows, outputs)) * noise
    left = (random.normal(size=(tasks, draws, shots, outputs)) * noise / shots**0.5)[:, :, None]
    mean, weight = np.zeros_like(y)[:, :, None], np.ones(y.shape[:3])
    weight[::2, :, rows - 10 :] = 0
    return Answers(mean, 0 * mean, mean[None], y, weight, 0.5 * left)


def shares(made, tasks, apart=0.4, level=0.9, **more):
    """The share inside of many new tasks."""
    return coverage_by_task(calibrate({5: made}), answers(tasks, 999, apart, **more), 5, level)


def years(made, each=3):
    """The rows of each task as those of several tasks of one group, which are as hard as each other."""
    split = lambda part: np.concatenate(np.split(part, each, axis=-2))
    mean, y = split(made.mean), split(made.y)
    units = np.tile(np.arange(len(made.y)), each)
    residual = np.concatenate([made.residual] * each)
    return Answers(mean, 0 * mean, mean[None], y, np.ones(y.shape[:3]), residual, units)


def test_a_new_group_has_the_share_inside_though_its_tasks_are_alike():
    by_group, by_task = [], []
    for seed in SEEDS:
        known = years(answers(4, seed, rows=90))
        by_group.append(shares(known, 100).mean())
        by_task.append(shares(known._replace(units=None), 100).mean())
    assert 0.88 <= np.mean(by_group) <= 0.94
    assert np.mean(by_task) < np.mean(by_group) - 0.005


@pytest.mark.parametrize("tasks", [3, 6, 15, 60])
@pytest.mark.parametrize("apart", [0.0, 0.4])
def test_a_new_task_has_the_share_inside_on_average(tasks, apart):
    found = [shares(answers(tasks, seed, apart), 100, apart).mean() for seed in SEEDS]
    assert 0.88 <= np.mean(found) <= 0.94
    if tasks == 60:
        assert np.min(found) > 0.86


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_other_levels_hold_too(level):
    found = [shares(answers(15, seed), 100, level=level).mean() for seed in SEEDS]
    assert level - 0.03 <= np.mean(found) <= level + 0.05


def test_hard_tasks_are_covered_by_what_they_leave_over_on_their_support():
    made = answers(20, 0, apart=0.7)
    blind = shares(made._replace(residual=None), 200, apart=0.7)
    seeing = shares(made, 200, apart=0.7)
    assert np.quantile(seeing, 0.1) > 0.75 > np.quantile(blind, 0.1)
    known = calibrate({5: made})
    new, wide = answers(200, 999, 0.7), known.half(np.zeros(1), 2.0, 5, 0.9)
    assert wide > known.half(np.zeros(1), 0.1, 5, 0.9)
    score = lambda one, residual: _interval_score(new, one.half(np.zeros(1), residual, 5, 0.9))
    alone = calibrate({5: made._replace(residual=None)})
    assert score(known, residual_of(new)) < 0.95 * score(alone, 0.0)  # not by wider intervals everywhere


def _interval_score(made, half, level=0.9):
    """The width of intervals and a penalty for what lies outside, a proper score: Winkler 1972."""
    beyond = np.maximum(np.abs(made.y) - half, 0.0)
    return (2 * half + 2 / (1 - level) * beyond)[made.weight > 0].mean()


def test_a_residual_that_says_nothing_is_left_out():
    made = answers(40, 3, apart=0.4)
    random = np.random.default_rng(0)
    known = calibrate({5: made._replace(residual=np.exp(random.normal(0, 1, (40, 4, 1, 1, 1))))})
    assert known.gains[5][0] * 1.0 < 0.2 * known.floors[5][0] ** 2


def test_fewer_tasks_make_wider_intervals():
    ratio = lambda made: calibrate({5: made._replace(residual=None)}).ratios[5][0.9][0]
    wide, narrow = (np.mean([ratio(answers(tasks, seed)) for seed in range(100)]) for tasks in (2, 40))
    assert narrow * 1.05 < wide < narrow * 1.6


def test_each_output_has_its_own():
    known = calibrate({5: answers(30, 0, outputs=3)})
    new = answers(50, 999, outputs=3)
    assert len(known.floors[5]) == len(known.gains[5]) == len(known.ratios[5][0.9]) == 3
    half = known.half(new.spread[:, :, 0], residual_of(new), 5, 0.9)
    inside = (np.abs(new.y) <= half)[new.weight > 0]
    assert inside.mean(0) == pytest.approx([0.9] * 3, abs=0.04)
    assert half[..., 2].mean() > 2 * half[..., 0].mean()
    assert Calibration.from_dict(json.loads(json.dumps(known.to_dict()))) == known


def test_a_file_of_before_is_read():
    known = Calibration.from_dict({"floors": {"5": 0.5}, "ratios": {"5": {"0.9": 2.0}}})
    assert known.half(np.asarray([1.2]), 7.0, 5, 0.9) == pytest.approx(2 * 1.3)


def test_residuals_mix_as_means_do():
    """What two models leave over, mixed, is what their mixture leaves over: a portfolio needs no other."""
    random = np.random.default_rng(0)
    y, one, two = random.normal(size=(3, 2, 4, 1, 6, 1))
    weight = np.ones((2, 4, 1, 6))
    weight[..., 4:] = 0
    mixed = 0.3 * _residual(one, y, weight) + 0.7 * _residual(two, y, weight)
    np.testing.assert_allclose(mixed, _residual(0.3 * one + 0.7 * two, y, weight))
    made = answers(2, 0)._replace(residual=mixed)
    wrong = (0.3 * one + 0.7 * two - y)[..., :4, :]
    np.testing.assert_allclose(residual_of(made)[:, :, 0], np.sqrt(np.square(wrong).mean(-2))[:, :, 0])


class TestFolds:
    def test_they_are_joined_though_tasks_differ_in_rows(self):
        parts = [answers(4, 0, rows=30), answers(7, 1, rows=22)]
        joined = concatenate(parts)
        assert joined.mean.shape == (11, 4, 1, 30, 1)
        assert joined.members.shape == (1, 11, 4, 1, 30, 1)
        assert joined.residual.shape == (11, 4, 1, 5, 1)
        known = calibrate({5: joined})
        apart = [coverage_by_task(known, part, 5, 0.9) for part in parts]
        np.testing.assert_allclose(coverage_by_task(known, joined, 5, 0.9), np.concatenate(apart))
        assert coverage(known, joined, 5, 0.9) == pytest.approx(np.concatenate(apart).mean())
        assert concatenate([parts[0], parts[1]._replace(residual=None)]).residual is None

    def test_left_out_one_by_one_is_honest(self):
        found = [each_left_out(answers(8, seed), 5) for seed in SEEDS]
        assert 0.87 <= np.mean(found) <= 0.95
        assert each_left_out(answers(1, 0), 5) is None
