r"""The LSTM learner: a recurrent network that reads a task's examples and then answers for the query.

    h_t = LSTM(h_{t-1}, (f(x_t), y_t)),    y* = linear(LSTM(h_K, (f(x*), ?)))

Reference: Hochreiter, Younger & Conwell, Learning to Learn Using Gradient Descent, ICANN 2001.
"""

import jax
from jaxtyping import Array, Bool, Float, Key

from fewstep import losses
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.learners import _dense
from fewstep.learners._sequence import Sizes, by_sequence


def recurrent(network: Network, sizes: Sizes, loss: Loss = losses.squared_error, *, width: int = 100) -> Learner:
    """The LSTM learner. `network` gives features of an input.

    **Arguments:** `sizes` of features and outputs; `width` of the LSTM's state.
    """

    def init(key: Key[Array, ""]) -> Meta:
        of_cell, of_last = jax.random.split(key)
        last = _dense.dense(of_last, width, sizes.outputs, gain=0.1)
        return {"recurrent": {"cell": _dense.cell(of_cell, sizes.token, width), "last": last}}

    def read(meta: Meta, rows: Float[Array, "steps d"], there: Bool[Array, " steps"]) -> Float[Array, " outputs"]:
        weights = meta["recurrent"]
        return _dense.apply(weights["last"], _dense.read(weights["cell"], rows, width, there)[-1])

    return by_sequence(network, sizes, loss, init, read)
