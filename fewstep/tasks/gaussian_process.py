"""Curves drawn from a Gaussian process: the benchmark of neural processes, and its exact posterior."""

import math
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from fewstep._episode import Arrays, Batch, Episode, Tasks
from fewstep._errors import FewstepError
from fewstep.tasks._curves import Range, check_sizes, interval

KernelName = Literal["rbf", "matern", "periodic"]
_TINY = 1e-12


class Prior(NamedTuple):
    """What was drawn for a task: the numbers of its kernel; `noise` is the standard deviation of an observation."""

    length: Float[Array, "..."]
    scale: Float[Array, "..."]
    period: Float[Array, "..."]
    noise: Float[Array, "..."]


def gaussian_process(
    shots: int = 10,
    queries: int = 10,
    *,
    kernel: Annotated[KernelName, "Kernel of the Gaussian process."] = "rbf",
    min_rows: Annotated[int, "Fewest points of a support or query; up to --shots and --queries are drawn."] = 3,
    max_rows: Annotated[int, "Most points of both together; 0: all of --queries count."] = 49,
    length: Annotated[Range, "Range of a kernel's length."] = (0.1, 0.6),
    scale: Annotated[Range, "Range of the standard deviation of a curve."] = (0.1, 1.0),
    period: Annotated[Range, "Range of a periodic kernel's period."] = (0.1, 0.5),
    noise: Annotated[float, "Standard deviation of the noise."] = 0.02,
    x_range: Annotated[Range, "Range of x."] = (-2.0, 2.0),
) -> Tasks:
    r"""Tasks `y = f(x) + noise` with f from a Gaussian process whose kernel is drawn anew for each.

    The kernels are `rbf`, scale^2 exp(-r^2 / 2) with r the distance over the length; `matern`, that of order 5/2; and
    `periodic`, scale^2 exp(-2 sin^2(pi |x - x'| / period) / length^2). With 46 shots and queries these are the tasks of
    Nguyen & Grover, Transformer Neural Processes, ICML 2022.

    **Arguments:** of `shots` points, between `min_rows` and all count in a task, and of `queries` as many, as long as
    both together are at most `max_rows`; the rest have weight 0.

    **Returns:** `Tasks`. One key gives one task: asking for more query points does not change its support. A curve is
    known only where it was drawn, so no x but these can be asked for.
    """
    check_sizes(shots, queries)
    _check(kernel, min_rows, max_rows, shots, noise)
    ranges = {"length": length, "scale": scale, "period": period, "places": x_range}
    data: Arrays = {name: interval(name, ends) for name, ends in ranges.items()}
    data["noise"] = interval("noise", (noise, noise))
    k = KERNELS[kernel]
    least = min(min_rows, shots)

    def sample(data: Arrays, key: Key[Array, ""]) -> Episode:
        of_counts, of_support, of_query = jax.random.split(jax.random.fold_in(key, 1), 3)
        prior, (low, high) = prior_of(data, key), data["places"]
        of_x, of_y = jax.random.split(of_support)
        of_x_new, of_y_new = jax.random.split(of_query)
        x = low + (high - low) * _rows(jax.random.uniform, of_x, of_x_new)
        covariance = k(prior, x, x) + prior.noise**2 * jnp.eye(shots + queries)
        y = _observe(covariance, _rows(jax.random.normal, of_y, of_y_new))
        count, asked = _counts(of_counts)
        return Episode(
            Batch(x[:shots], y[:shots], _first(count, shots)), Batch(x[shots:], y[shots:], _first(asked, queries))
        )

    def _rows(draw: Callable[..., Array], of_support: Array, of_query: Array) -> Float[Array, "rows 1"]:
        return jnp.concatenate([draw(of_support, (shots, 1)), draw(of_query, (queries, 1))])

    def _counts(key: Key[Array, ""]) -> tuple[Array, Array]:
        of_support, of_query = jax.random.split(key)
        count = _below(of_support, least, jnp.asarray(shots))
        if not max_rows:
            return count, jnp.asarray(queries)
        return count, _below(of_query, min(min_rows, queries), jnp.minimum(queries, max_rows - count))

    return Tasks(data, sample)


def prior_of(data: Arrays, key: Key[Array, ""]) -> Prior:
    """What `sample(data, key)` of these tasks draws its curve from."""
    even = jax.random.uniform(jax.random.fold_in(key, 0), (3,))
    low, high = jnp.stack([data[name] for name in ("length", "scale", "period")]).T
    drawn = low + (high - low) * even
    return Prior(drawn[0], drawn[1], drawn[2], jnp.asarray(data["noise"])[0])


def posterior(
    kernel: KernelName, prior: Prior, support: Batch, x: Float[Array, "rows 1"]
) -> tuple[Float[Array, "rows 1"], Float[Array, "rows 1"]]:
    """Mean and standard deviation of a new observation at x, given the support and the kernel: no prediction from the
    support alone has a higher expected log-likelihood. Compute it in float64: the matrices are nearly singular."""
    k, there = KERNELS[kernel], support.weight > 0
    both = there[:, None] & there[None]
    gram = k(prior, support.x, support.x) + prior.noise**2 * jnp.eye(len(there), dtype=support.x.dtype)
    root = jnp.linalg.cholesky(jnp.where(both, gram, jnp.eye(len(there), dtype=gram.dtype)))
    cross = jnp.where(there[:, None], k(prior, support.x, x), 0)
    white = _solve(root, jnp.concatenate([cross, jnp.where(there[:, None], support.y, 0)], axis=1))
    white, known = white[:, :-1], white[:, -1:]
    variance = prior.scale**2 + prior.noise**2 - jnp.sum(jnp.square(white), axis=0)
    return white.T @ known, jnp.sqrt(variance)[:, None]


def _apart(a: Float[Array, "a 1"], b: Float[Array, "b 1"]) -> Float[Array, "a b"]:
    return jnp.abs(a - b[:, 0][None])


def _rbf(prior: Prior, a: Array, b: Array) -> Array:
    return prior.scale**2 * jnp.exp(-jnp.square(_apart(a, b) / prior.length) / 2)


def _matern(prior: Prior, a: Array, b: Array) -> Array:
    r = math.sqrt(5) * _apart(a, b) / prior.length
    return prior.scale**2 * (1 + r + jnp.square(r) / 3) * jnp.exp(-r)


def _periodic(prior: Prior, a: Array, b: Array) -> Array:
    turn = jnp.sin(jnp.pi * _apart(a, b) / prior.period)
    return prior.scale**2 * jnp.exp(-2 * jnp.square(turn / prior.length))


KERNELS: dict[str, Callable[[Prior, Array, Array], Array]] = {
    "rbf": _rbf, "matern": _matern, "periodic": _periodic,
}  # fmt: skip


def _observe(covariance: Float[Array, "n n"], z: Float[Array, "n 1"]) -> Float[Array, "n 1"]:
    """The root of a covariance times normal numbers, column by column, so that no row depends on those after it: not
    even in its last bit, as in a library's blocked factorization."""

    def column(number: int | Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, y = carry
        own = rest[number] * jax.lax.rsqrt(jnp.maximum(rest[number, number], _TINY))
        own = jnp.where(jnp.arange(len(z)) >= number, own, 0.0)
        return rest - own[:, None] * own[None], y + own[:, None] * z[number][None]

    return jax.lax.fori_loop(0, len(z), column, (covariance, jnp.zeros_like(z)))[1]


def _solve(root: Float[Array, "n n"], right: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Forward substitution. Under `vmap` on a CPU, that of JAX takes a hundred times as long."""
    row = lambda number, white: white.at[number].set((right[number] - root[number] @ white) / root[number, number])
    return jax.lax.fori_loop(0, len(right), row, jnp.zeros_like(right))


def _below(key: Key[Array, ""], low: int, high: Array) -> Int[Array, ""]:
    """A whole number from `low` to `high`, both of them possible."""
    return jax.random.randint(key, (), low, jnp.maximum(high, low) + 1)


def _first(count: Array, rows: int) -> Float[Array, " rows"]:
    return (jnp.arange(rows) < count).astype(float)


def _check(kernel: str, min_rows: int, max_rows: int, shots: int, noise: float) -> None:
    if kernel not in KERNELS:
        raise FewstepError(f"kernel is {kernel!r}. Known: {', '.join(KERNELS)}.")
    if min_rows < 1:
        raise FewstepError(f"min_rows is {min_rows}. A task needs at least one point to learn from.")
    if max_rows and max_rows < shots + min_rows:
        raise FewstepError(
            f"max_rows is {max_rows}, and {shots} shots leave fewer than min_rows={min_rows} for the query. Use "
            f"`max_rows={shots + min_rows}` or more, or 0 for no limit."
        )
    if not 0 < noise < math.inf:
        raise FewstepError(f"noise is {noise}. It must be above 0 and finite, such as 0.02.")
