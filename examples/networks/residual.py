"""A small residual network of Flax NNX:

fewstep train mtnet table:sensors.csv ... --network examples/networks/residual.py:make
"""

from flax import nnx

from fewstep.interop import nnx as from_nnx


class Block(nnx.Module):
    """A layer that adds to what it gets."""

    def __init__(self, width, rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.inside, self.outside = nnx.Linear(width, width, rngs=rngs), nnx.Linear(width, width, rngs=rngs)

    def __call__(self, x):
        return x + self.outside(nnx.relu(self.inside(self.norm(x))))


class Residual(nnx.Module):
    """Three blocks between a first and a last layer."""

    def __init__(self, inputs, outputs, rngs, width=32):
        self.first, self.last = nnx.Linear(inputs, width, rngs=rngs), nnx.Linear(width, outputs, rngs=rngs)
        self.blocks = nnx.List([Block(width, rngs) for _ in range(3)])

    def __call__(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def make(x, outputs):
    """The network for rows such as x."""
    return from_nnx.network(lambda rngs: Residual(x.shape[1], outputs, rngs), x)
