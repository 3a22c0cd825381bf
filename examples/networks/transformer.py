"""A transformer encoder of Flax for short sequences, one column a place:

fewstep train mtnet table:series.csv ... --network examples/networks/transformer.py:make
"""

import flax.linen as nn

from fewstep.interop import linen


class Encoder(nn.Module):
    """Two layers of attention over the numbers of a row, each with its place learned."""

    outputs: int
    width: int = 16

    @nn.compact
    def __call__(self, x):
        place = self.param("place", nn.initializers.normal(0.1), (1, x.shape[1], self.width))
        x = nn.Dense(self.width)(x[:, :, None]) + place
        for _ in range(2):
            x = x + nn.MultiHeadDotProductAttention(num_heads=2)(nn.LayerNorm()(x))
            x = x + nn.Dense(self.width)(nn.relu(nn.Dense(2 * self.width)(nn.LayerNorm()(x))))
        return nn.Dense(self.outputs)(x.mean(axis=1))


def make(x, outputs):
    """The network for rows such as x."""
    return linen.network(Encoder(outputs), x)
