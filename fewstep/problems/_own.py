"""The parts of a problem that a user may bring: the network and the loss."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fewstep import losses
from fewstep._episode import Batch
from fewstep._errors import FewstepError
from fewstep._learner import Loss
from fewstep._network import Network
from fewstep.files import called, function_of
from fewstep.problems._options import option

USUAL = "usual"
LOSSES: dict[str, Loss] = {
    "squared_error": losses.squared_error, "absolute_error": losses.absolute_error, "huber": losses.huber,
    "cross_entropy": losses.cross_entropy,
}  # fmt: skip
NETWORK_HELP = (
    "The network by name, or your own as FILE.py:FUNCTION, called as function(x, outputs) with some rows of x; it "
    "returns what fewstep.network or one of fewstep.interop makes of a model."
)
LOSS_HELP = (
    "What is minimized: squared_error, absolute_error, huber or cross_entropy, or FILE.py:FUNCTION of yours, called as "
    "function(prediction, batch); usual is cross_entropy for classes and squared_error for numbers."
)


@dataclasses.dataclass(frozen=True)
class OwnNetwork:
    """The options of a network that a user brings."""

    network: str = option("", NETWORK_HELP)
    loss: str = option(USUAL, LOSS_HELP)


def is_own(text: str) -> bool:
    """Whether a name is that of a user's code: FILE.py:NAME."""
    return ".py:" in text


def find_loss(text: str, outputs: int, *, classes: bool) -> Loss:
    """A loss by its name, or a user's, which must give one number for a few rows of a task."""
    if text == USUAL:
        return losses.cross_entropy if classes else losses.squared_error
    loss = function_of("loss", text, "(prediction, batch)", LOSSES)
    y = jnp.zeros(4, jnp.int32) if classes else jnp.zeros((4, outputs))
    batch = Batch(jnp.zeros((4, 1)), y, jnp.ones(4))
    what = f"The loss {text} of a prediction of shape (4, {outputs}) and {'classes' if classes else 'numbers'} as y"
    value = called(what, jax.eval_shape, loss, jnp.zeros((4, outputs)), batch)
    if getattr(value, "shape", None) != ():
        raise FewstepError(f"{what} is {value}, and must be one number: the weighted mean over the rows.")
    return loss


def own_network(source: str | Callable[..., object], x: Array, outputs: int) -> Network:
    """A user's network for rows such as those of x, checked against what the tasks need."""
    make = function_of("network", source, "(x, outputs)") if isinstance(source, str) else source
    text = source if isinstance(source, str) else getattr(source, "__name__", "network")
    network = called(f"{text}(x, outputs) with x of shape {x.shape} and outputs {outputs}", make, x, outputs)
    if not isinstance(network, Network):
        raise FewstepError(
            f"{text} returns a {type(network).__name__}. Let it return fewstep.network(init, apply, x), or what "
            "fewstep.interop.equinox.network, .linen.network or .nnx.network makes of your model and x."
        )
    y = called(f"The network of {text}", jax.eval_shape, lambda: _forward(network, x))
    if y.shape != (x.shape[0], outputs):
        raise FewstepError(
            f"The network of {text} gives shape {y.shape} for x of shape {x.shape}. These tasks need "
            f"{(x.shape[0], outputs)}: a row of {outputs} for each row of x."
        )
    return network


def _forward(network: Network, x: Array) -> Array:
    return network.apply(network.init(jax.random.key(0)), (), x, jnp.ones(x.shape[0]))[0]
