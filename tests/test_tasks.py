"""The task distributions, point by point as their papers' code has them."""

import jax
import numpy as np
import pytest
from helpers import TASKS

import fewstep
from fewstep import tasks


def many(some, count=2000):
    return jax.vmap(lambda key: some.sample(some.data, key))(jax.random.split(jax.random.key(0), count))


def test_sinusoids_are_sines_of_the_given_ranges():
    drawn = many(tasks.sinusoid(4, 3))
    assert drawn.support.x.shape == (2000, 4, 1)
    assert drawn.query.y.shape == (2000, 3, 1)
    assert -5 <= drawn.query.x.min() < -4.9
    assert 4.9 < drawn.query.x.max() <= 5
    assert 4.5 < np.abs(drawn.query.y).max() <= 5
    assert (drawn.query.weight == 1).all()


def test_a_sinusoid_has_the_sign_of_the_code():
    """With the phase held at b and frequency 1 the wave is A sin(x - b)."""
    fixed = tasks.sinusoid(6, 6, amplitude=(2.0, 2.0), frequency=(1.0, 1.0), phase=(0.5, 0.5))
    drawn = many(fixed, 5)
    np.testing.assert_allclose(drawn.query.y, 2 * np.sin(drawn.query.x - 0.5), atol=1e-5)


@pytest.mark.parametrize("order", [0, 2])
def test_polynomials_have_their_order_and_bounded_terms(order):
    drawn = many(tasks.polynomial(order + 1, 9, order=order), 50)
    for x, y, x_new, y_new in zip(
        drawn.support.x[..., 0], drawn.support.y[..., 0], drawn.query.x[..., 0], drawn.query.y[..., 0], strict=True
    ):
        coefficients = np.polynomial.polynomial.polyfit(np.asarray(x, float), np.asarray(y, float), order)
        np.testing.assert_allclose(np.polynomial.polynomial.polyval(x_new, coefficients), y_new, atol=2e-2)
        assert (np.abs(coefficients) * 2.0 ** np.arange(order + 1) < 1.2).all()
    assert np.abs(drawn.query.x).max() <= 2
    assert np.abs(drawn.query.y).max() <= order + 1


@pytest.mark.parametrize("name", TASKS)
def test_more_query_points_change_neither_task_nor_support(name):
    few, more = (TASKS[name](5, queries) for queries in (3, 30))
    key = jax.random.key(4)
    for a, b in zip(few.sample(few.data, key).support, more.sample(more.data, key).support, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tasks.sinusoid(0), "shots is 0"),
        (lambda: tasks.sinusoid(1, 0), "queries is 0"),
        (lambda: tasks.sinusoid(amplitude=(5.0, 0.1)), r"amplitude is \(5.0, 0.1\)"),
        (lambda: tasks.polynomial(order=-1), "order is -1"),
        (lambda: tasks.polynomial(x_range=(0.0, float("nan"))), "finite numbers"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(fewstep.FewstepError, match=words):
        make()
