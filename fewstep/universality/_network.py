"""The network of the proof: a feature map with a switch, the layers, and an output that changes over."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from fewstep._errors import FewstepError
from fewstep._network import Layer, Leaf, Network, flatten
from fewstep.universality._layers import layers
from fewstep.universality.plan import Activation, Plan

Params = dict[str, PyTree]
Apply = Callable[[Params, PyTree, Array, Array], tuple[Array, PyTree]]
Readout = Callable[[Params, Array], Array]  # the output's parameters and the bar block of a row: y_hat
_SKIP = "part of a construction whose layers are fixed"


class Signal(NamedTuple):
    """What flows through the layers, in rows, by block."""

    tilde: Float[Array, "rows tilde"]
    bar: Float[Array, "rows bar"]
    check: Float[Array, " rows"]


def network(plan: Plan, apply: Apply, table: Params) -> Network:
    """The network of a plan; `apply` is `make_apply` of its shape, `table` what its read-out knows."""

    def init(key: Key[Array, ""]) -> Params:
        return jax.tree.map(jnp.asarray, {
            "switch": {"bias": np.zeros(())}, "layers": layers(plan),
            "before": {"offset": plan.offset, "check": plan.check}, "after": table,
        })  # fmt: skip

    leaves_of = {
        "switch": ("bias",), "layers": ("tilde", "bar", "check", "cross", "to_check"), "before": ("offset", "check"),
        "after": tuple(flatten(table)),
    }  # fmt: skip
    leaves = {name: tuple(Leaf(f"{name}/{leaf}", (0,)) for leaf in names) for name, names in leaves_of.items()}
    return Network(init, apply, tuple(Layer(name, 1, names, _SKIP) for name, names in leaves.items()))


def make_apply(shape: Plan, readout: Readout) -> Apply:
    """The function of all networks of that shape; `readout(parameters, bar)` is h_post."""

    def apply(params: Params, state: PyTree, x: Array, weight: Array) -> tuple[Array, PyTree]:
        if x.ndim != 2 or x.shape[1] != len(shape.x_box):
            raise FewstepError(f"x has shape {x.shape}; this network takes rows of {len(shape.x_box)} numbers.")
        return _output(shape, readout, params, run_layers(shape, params, x)[0]), state

    return apply


def features(plan: Plan, switch: Array, x: Float[Array, "rows inputs"]) -> Signal:
    """phi: x in the upper half of tilde while the switch is 0, x* in the lower half once it is not."""
    upper = jax.nn.one_hot(plan.bin_of(x), plan.J, dtype=x.dtype)
    lower = jax.nn.one_hot(plan.bin_of(x, query=True), plan.L, dtype=x.dtype)
    off = switch == 0
    tilde = jnp.concatenate([jnp.where(off, upper, 0.0), jnp.where(off, 0.0, lower)], axis=1)
    bar = jnp.zeros((x.shape[0], plan.slots * plan.outputs), x.dtype)
    return Signal(tilde, bar, jnp.broadcast_to(switch, x.shape[:1]))


@partial(jax.jit, static_argnums=0)
def run_layers(plan: Plan, params: Params, x: Float[Array, "rows inputs"]) -> tuple[Signal, Signal]:
    """What comes out of the layers, and what comes out of each of them, the first to be applied first."""
    activation = activations()[plan.activation]

    def layer(flow: Signal, w: dict[str, Array]) -> tuple[Signal, Signal]:
        output = Signal(
            flow.tilde @ w["tilde"].T,
            flow.bar * w["bar"][None] + flow.tilde @ w["cross"].T,
            flow.check * w["check"] + flow.tilde @ w["to_check"],
        )
        output = Signal(*map(activation, output))
        return output, output

    switch = params["switch"]["bias"]
    return jax.lax.scan(layer, features(plan, switch, x.astype(switch.dtype)), params["layers"])


def activations() -> dict[Activation, Callable[[Array], Array]]:
    """What may stand between layers. The proof's ReLU has the derivative 1 at 0, where the bar block is."""
    return {
        "linear": lambda z: z,
        "relu": lambda z: jnp.where(z >= 0, z, 0.0),
        "framework relu": jax.nn.relu,
    }


def _output(plan: Plan, readout: Readout, params: Params, last: Signal) -> Float[Array, "rows outputs"]:
    """f_out: the linear g_pre while the bar block is about 0, h_post once the step has written there."""
    groups = last.bar.reshape(-1, plan.slots, plan.outputs)
    of_switch = last.check[:, None] * params["before"]["check"][None]
    before = params["before"]["offset"][None] + jnp.sum(groups, axis=1) + of_switch
    after = jax.vmap(lambda bar: readout(params["after"], bar))(last.bar)
    threshold = 0.5 * plan.gain * plan.min_signal
    on = jnp.clip(2 * jnp.max(jnp.abs(last.bar), axis=1) / threshold - 1, 0.0, 1.0)[:, None]
    return (1 - on) * before + on * after
