r"""Meta networks: fast weights made from each example's gradient, remembered, and recalled for the query.

    Q* = d(mean_i grad_Q L(u_Q(x_i), y_i))                 fast weights of the representation u
    W*_i = m(grad_W L(b_W(x_i), y_i)),  r_i = u_{Q,Q*}(x_i)    what is remembered of example i, and where
    W* = sum_i a_i W*_i,  a = softmax over i of cos(r_i, u_{Q,Q*}(x*)),    y* = b_{W,W*}(x*)

Slow and fast weights work side by side in each layer: `act(x W) + act(x W*)`. m and d are small perceptrons that look
at one entry of the gradient at a time, its logarithm and its sign; no derivative is taken through the gradients.

Reference: Munkhdalai & Yu, Meta Networks, ICML 2017. Ours keeps fast weights in the dense layers after the features,
and takes the mean of the gradients for d where the authors run an LSTM over them.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from fewstep import losses
from fewstep._episode import Batch
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.learners import _dense
from fewstep.learners._features import by_features, unit
from fewstep.learners._sequence import Sizes

_GENERATOR = 20  # hidden units of m and of d
_CUT = 7.0  # entries below exp(-7) are passed on as they are, others by logarithm and sign
Layers = list[_dense.Weights]


def metanet(network: Network, sizes: Sizes, loss: Loss = losses.squared_error, *, width: int = 64) -> Learner:
    """The learner of meta networks. `network` gives features of an input.

    **Arguments:** `sizes` of features and outputs; `width` of the dense layers that have fast weights.
    """

    def init(key: Key[Array, ""]) -> Meta:
        keys = jax.random.split(key, 6)
        dense, d, k = _dense.dense, sizes.features, sizes.outputs
        return {"metanet": {
            "represent": [dense(keys[0], d, width), dense(keys[1], width, k, gain=0.1)],
            "base": [dense(keys[2], d, width), dense(keys[3], width, k, gain=0.1)],
            "d": _generator(keys[4]), "m": _generator(keys[5]),
        }}  # fmt: skip

    def gradient(layers: Layers, feature: Float[Array, " d"], row: Batch) -> Layers:
        wrong = lambda some: loss(_forward(some, None, feature)[None], row)
        return jax.lax.stop_gradient(jax.grad(wrong)(layers))

    def keep(meta: Meta, features: Float[Array, "rows d"], support: Batch) -> dict[str, PyTree]:
        net, rows = meta["metanet"], jax.tree.map(lambda leaf: leaf[:, None], support)
        each = jax.vmap(lambda layers, feature, row: gradient(layers, feature, row), (None, 0, 0))
        share = support.weight / jnp.maximum(support.weight.sum(), 1e-12)
        mean = jax.tree.map(lambda leaf: jnp.tensordot(share, leaf, 1), each(net["represent"], features, rows))
        fast = _generate(net["d"], mean)
        memory = jax.vmap(lambda slopes: _generate(net["m"], slopes))(each(net["base"], features, rows))
        where = jax.vmap(lambda feature: _hidden(net["represent"], fast, feature))(features)
        return {"represent": fast, "memory": memory, "where": where, "there": support.weight > 0}

    def compare(meta: Meta, task: dict[str, PyTree], features: Float[Array, "rows d"]) -> Float[Array, "rows outputs"]:
        net = meta["metanet"]

        def one(feature: Float[Array, " d"]) -> Float[Array, " outputs"]:
            address = _hidden(net["represent"], task["represent"], feature)
            near = (unit(task["where"]) @ unit(address[None]).T)[:, 0]
            attention = jax.nn.softmax(jnp.where(task["there"], near, -jnp.inf))
            fast = jax.tree.map(lambda leaf: jnp.tensordot(attention, leaf, 1), task["memory"])
            return _forward(net["base"], fast, feature)

        return jax.vmap(one)(features)

    return by_features(network, loss, init, keep, compare)


def _forward(slow: Layers, fast: Layers | None, x: Float[Array, " d"]) -> Float[Array, " outputs"]:
    hidden = _hidden(slow, fast, x)
    outputs = _dense.apply(slow[-1], hidden)
    return outputs if fast is None else outputs + _dense.apply(fast[-1], hidden)


def _hidden(slow: Layers, fast: Layers | None, x: Float[Array, " d"]) -> Float[Array, " width"]:
    """The first layer, slow and fast side by side."""
    units = jax.nn.relu(_dense.apply(slow[0], x))
    return units if fast is None else units + jax.nn.relu(_dense.apply(fast[0], x))


def _generator(key: Key[Array, ""]) -> Layers:
    keys, widths = jax.random.split(key, 3), ((2, _GENERATOR), (_GENERATOR, _GENERATOR), (_GENERATOR, 1))
    return [_dense.dense(k, *pair) for k, pair in zip(keys, widths, strict=True)]


def _generate(generator: Layers, slopes: Layers) -> Layers:
    """Fast weights from slopes, each entry on its own."""

    def entry(leaf: Float[Array, "..."]) -> Float[Array, "..."]:
        rows = _preprocess(leaf.reshape(-1))
        for layer in generator[:-1]:
            rows = jax.nn.relu(_dense.apply(layer, rows))
        return 0.1 * _dense.apply(generator[-1], rows).reshape(leaf.shape)

    return jax.tree.map(entry, slopes)


def _preprocess(slopes: Float[Array, " entries"]) -> Float[Array, "entries 2"]:
    """An entry of a gradient as two numbers of a useful size: logarithm and sign, or for a tiny one itself."""
    size = jnp.abs(slopes)
    large = size >= jnp.exp(-_CUT)
    first = jnp.where(large, jnp.log(jnp.where(large, size, 1.0)) / _CUT, -1.0)
    return jnp.stack([first, jnp.where(large, jnp.sign(slopes), jnp.exp(_CUT) * slopes)], axis=1)
