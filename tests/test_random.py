"""The generator written out gives JAX's own numbers."""

import jax
import numpy as np
import pytest

from fewstep.compute import written_out

KEYS = jax.random.split(jax.random.key(3), (2, 3))


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: jax.random.key_data(jax.random.split(key, 5)),
        lambda key: jax.random.key_data(jax.random.fold_in(key, 70_000)),
        lambda key: jax.random.uniform(key, (4, 3)),
        lambda key: jax.random.bits(key, (6,), "uint8"),
        lambda key: jax.random.normal(jax.random.fold_in(key, 1), ()),
    ],
    ids=["split", "fold_in", "uniform", "bytes", "scalar"],
)
def test_written_out_keys_give_the_same_numbers(draw):
    plain, out = (jax.vmap(jax.vmap(draw))(keys) for keys in (KEYS, written_out(KEYS)))
    np.testing.assert_array_equal(plain, out)


def test_written_out_keys_give_the_same_doubles():
    with jax.enable_x64(True):
        plain, out = (jax.random.uniform(keys, (7,), "float64") for keys in (KEYS[0, 0], written_out(KEYS)[0, 0]))
    np.testing.assert_array_equal(plain, out)


def test_another_generator_is_left_alone():
    key = jax.random.key(0, impl="rbg")
    assert jax.random.key_impl(written_out(key)) == "rbg"
