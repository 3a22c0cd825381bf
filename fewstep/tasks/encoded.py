"""Few-shot classification of encoded rows: N classes, K rows of each to learn from, Q of each to be evaluated on."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from fewstep._episode import Arrays, Batch, Episode, Tasks
from fewstep.data import RowSet
from fewstep.tasks._classes import below, check_sizes, draw_rows, episode_of


def encoded(of: RowSet, shots: int = 1, queries: int = 1, *, ways: int = 5, what: str = "rows") -> Tasks:
    """Tasks that draw `ways` classes of a set of rows, and of each `shots` rows for the support and `queries` for the
    query: `images` for what an encoder made of them.

    **Arguments:** `what` the rows are called in messages, such as "texts".

    **Returns:** `Tasks`.

    Example::

        encoded(data.make_rows({"cat": cats, "dog": dogs, "owl": owls}), shots=1, ways=2)
    """
    check_sizes(of, shots, queries, ways, what=what)

    def sample(data: Arrays, key: Key[Array, ""]) -> Episode:
        return episode_of(jnp.asarray(data["rows"])[draw_rows(data, key, ways, shots + queries).rows], shots)

    return Tasks({"rows": of.rows, "starts": of.starts, "counts": of.counts}, sample)


def all_encoded(of: RowSet, rows: int = 64) -> Tasks:
    """Batches of rows from all classes, labeled by the class; support and query are the same batch."""

    def sample(data: Arrays, key: Key[Array, ""]) -> Episode:
        even = jax.random.uniform(key, (2, rows))
        label = below(even[0], jnp.asarray(len(of.names)))
        which = data["starts"][label] + below(even[1], data["counts"][label])
        batch = Batch(jnp.asarray(data["rows"])[which], label, jnp.ones(rows))
        return Episode(batch, batch)

    return Tasks({"rows": of.rows, "starts": of.starts, "counts": of.counts}, sample)
