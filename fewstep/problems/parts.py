"""What a problem is made of, and the parts of it that a user may bring: the network and the loss."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fewstep import losses
from fewstep._episode import Batch, Tasks
from fewstep._errors import FewstepError
from fewstep._learner import Loss
from fewstep._network import Network
from fewstep.files import called, function_of
from fewstep.tables import Rows, Schema

LOSSES: dict[str, Loss] = {
    "squared_error": losses.squared_error, "absolute_error": losses.absolute_error, "huber": losses.huber,
    "cross_entropy": losses.cross_entropy,
}  # fmt: skip


class Problem(NamedTuple):
    """What an experiment's tasks ask for.

    `tasks(shots, queries, split="train", ways=None)` makes the task distribution in other sizes; `classes` gives
    batches of all training classes, `n_classes` how many these are; `network(outputs, norm)` fits the tasks
    (`outputs=None`: its features); `loss` is minimized; `score` is told, in the unit `metric`; `validation` is lower
    for better; `norms` are the ways of normalizing to judge by, the one of the training first; `image` is the shape of
    one, or `widths` the numbers of a row of x and of y. Of a table, `schema` are its columns, `rows(split)` its rows.
    """

    tasks: Callable[..., Tasks]
    network: Callable[..., Network]
    loss: Loss
    score: Loss
    metric: str
    validation: Loss
    classes: Callable[[], Tasks] | None = None
    n_classes: Callable[[], int] = lambda: 0
    norms: tuple[str | None, ...] = (None,)
    image: tuple[int, ...] = ()
    widths: tuple[int, int] = (0, 0)
    schema: Schema | None = None
    rows: Callable[[str], Rows] | None = None


def own_loss(text: str) -> Loss:
    """A loss by its name, or a user's."""
    return LOSSES[text] if text in LOSSES else function_of("loss", text, "(prediction, batch)", LOSSES)


def checked_loss(text: str, loss: Loss, outputs: int, *, classes: bool) -> Loss:
    """A loss that gives one number for a few rows of a task; else it is refused, in one line."""
    y = jnp.zeros(4, jnp.int32) if classes else jnp.zeros((4, outputs))
    batch = Batch(jnp.zeros((4, 1)), y, jnp.ones(4))
    what = f"The loss {text} of a prediction of shape (4, {outputs}) and {'classes' if classes else 'numbers'} as y"
    found = called(what, jax.eval_shape, loss, jnp.zeros((4, outputs)), batch)
    if getattr(found, "shape", None) != ():
        raise FewstepError(f"{what} is {found}, and must be one number: the weighted mean over the rows.")
    return loss


def own_network(given: str | Callable[..., Any] | None, x: Any, outputs: int) -> Network:
    """A user's network for rows such as those of x, held to what the tasks need."""
    named = isinstance(given, str)
    make = function_of("network", given, "(x, outputs)") if isinstance(given, str) else given
    text = given if named else getattr(given, "__name__", "network")
    assert make is not None
    made = called(f"{text}(x, outputs) with x of shape {x.shape} and outputs {outputs}", make, x, outputs)
    if not isinstance(made, Network):
        raise FewstepError(
            f"{text} returns a {type(made).__name__}. Let it return fewstep.network(init, apply, x), or what "
            "fewstep.interop.equinox.network, .linen.network or .nnx.network makes of your model and x."
        )
    found = called(f"The network of {text}", jax.eval_shape, lambda: _outcome(made, x))
    if found.shape != (x.shape[0], outputs):
        raise FewstepError(
            f"The network of {text} gives shape {found.shape} for x of shape {x.shape}. These tasks need "
            f"{(x.shape[0], outputs)}: a row of {outputs} for each row of x."
        )
    return made


def _outcome(network: Network, x: Any) -> Any:
    return network.apply(network.init(jax.random.key(0)), (), x, jnp.ones(x.shape[0]))[0]
