"""A small convolutional network of Flax for images:

fewstep train mtnet omniglot --network examples/networks/cnn.py:make
"""

import flax.linen as nn

from fewstep.interop import linen


class Cnn(nn.Module):
    """Three convolutions, each halving the image; normalized over each image, so that no batch is needed."""

    outputs: int

    @nn.compact
    def __call__(self, x):
        for width in (16, 32, 32):
            x = nn.relu(nn.GroupNorm(4)(nn.Conv(width, (3, 3), strides=2)(x)))
        return nn.Dense(self.outputs)(x.mean(axis=(1, 2)))


def make(x, outputs):
    """The network for images such as x."""
    return linen.network(Cnn(outputs), x)
