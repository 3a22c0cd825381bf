"""An LSTM of Equinox for rows that are short time series, one column a moment. A task adapts the head alone:

fewstep train anil table:series.csv ... --network examples/networks/lstm.py:make
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from fewstep.interop import equinox


class Series(eqx.Module):
    """Reads the numbers of a row one after the other."""

    cell: eqx.nn.LSTMCell
    head: eqx.nn.Linear

    def __init__(self, outputs, key, width=24):
        of_cell, of_head = jax.random.split(key)
        self.cell = eqx.nn.LSTMCell(1, width, key=of_cell)
        self.head = eqx.nn.Linear(width, outputs, key=of_head)

    def __call__(self, row):
        start = (jnp.zeros(self.cell.hidden_size), jnp.zeros(self.cell.hidden_size))
        (hidden, _), _ = jax.lax.scan(lambda state, number: (self.cell(number[None], state), None), start, row)
        return self.head(hidden)


def make(x, outputs):
    """The network for rows such as x."""
    return equinox.network(lambda key: Series(outputs, key), x)
