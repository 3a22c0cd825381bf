"""JAX's own random numbers, to the last bit, in a form that a CPU runs several times faster.

On a CPU, JAX writes each use of its generator as a loop of five turns over some fifteen tiny kernels. Written out as
far as is good, it is two turns over six: a sixth of the kernels, of which a step of a small network runs hundreds.
"""

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Key, UInt32

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def written_out(key: Key[Array, "..."]) -> Key[Array, "..."]:
    """The same key, whose numbers are the same too, but made by code with shorter loops where that pays: on a CPU."""
    plain = jax.random.key_impl(key) == "threefry2x32" and jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
    if not plain or jax.default_backend() != "cpu":
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_IMPLEMENTATION)


def _hash(key: UInt32[Array, "2"], high: Array, low: Array) -> Array:
    """Threefry 2x32 with 20 rounds in five turns (Salmon, Moraes, Dror & Shaw, 2011)."""
    words = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    added = [(words[(turn + 1) % 3], words[(turn + 2) % 3] + jnp.uint32(turn + 1)) for turn in range(5)]
    state = _turn(high + words[0], low + words[1], _ROTATIONS[0], added[0])

    def two_turns(second: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        for turn in (1, 2):
            late, early = added[turn + 2], added[turn]
            now = jnp.where(second, late[0], early[0]), jnp.where(second, late[1], early[1])
            state = _turn(*state, _ROTATIONS[turn % 2], now)
        return state

    # A loop's outcome is kept. Without one the compiler would hash again wherever a number is used.
    return jnp.stack(jax.lax.fori_loop(0, 2, two_turns, state))


def _turn(high: Array, low: Array, rotations: tuple[int, ...], added: tuple[Array, Array]) -> tuple[Array, Array]:
    for rotation in rotations:
        high = high + low
        low = high ^ (low << jnp.uint32(rotation) | low >> jnp.uint32(32 - rotation))
    return high + added[0], low + added[1]


def _numbered(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> Array:
    """The hashes of the numbers 0, 1, 2 ... in an array's order; there are fewer than 2^32 of them."""
    size = 1
    for length in shape:
        size *= length
    numbers = jnp.arange(size, dtype=jnp.uint32).reshape(shape)
    return _hash(key, jnp.zeros_like(numbers), numbers)


def _split(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> Array:
    return jnp.moveaxis(_numbered(key, shape), 0, -1)


def _fold_in(key: UInt32[Array, "2"], data: Array | int) -> Array:
    return _hash(key, jnp.uint32(0), jnp.asarray(data, jnp.uint32))


def _bits(key: UInt32[Array, "2"], width: int, shape: tuple[int, ...]) -> Array:
    high, low = _numbered(key, shape)
    if width == 64:
        return high.astype(jnp.uint64) << jnp.uint64(32) | low.astype(jnp.uint64)
    return (high ^ low).astype(f"uint{width}")


def _seed(seed: Array) -> Array:
    return jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))


_IMPLEMENTATION = define_prng_impl(
    key_shape=(2,), seed=_seed, split=_split, random_bits=_bits, fold_in=_fold_in, name="threefry2x32 written out",
    tag="out",
)  # fmt: skip
