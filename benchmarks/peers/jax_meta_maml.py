"""`jax-meta`: its MAML, with the same network as plain functions, convolutions by `lax.conv` as its own have them."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy
import optax
from jax_meta.metalearners import MAML
from jax_meta.metalearners.base import MetaLearnerState
from wire import System, speak, versions

_DIMENSIONS = ("NHWC", "HWIO", "NHWC")


def perceptron(weights, x):
    """Linear layers with ReLU between them."""
    count = len(weights) // 2
    for number in range(count):
        x = x @ weights[f"dense_{number}/kernel"] + weights[f"dense_{number}/bias"]
        x = jax.nn.relu(x) if number < count - 1 else x
    return x


def conv4(weights, x):
    """Blocks of a convolution of stride 2, normalization by the batch's own statistics and ReLU; a linear layer."""
    for number in range(sum(path.startswith("norm") for path in weights)):
        kernel = weights[f"conv_{number}/kernel"]
        x = jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=_DIMENSIONS)
        x = x + weights[f"conv_{number}/bias"]
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        x = jax.nn.relu((x - mean) * jax.lax.rsqrt(variance + 1e-3) + weights[f"norm_{number}/shift"])
    return x.mean((1, 2)) @ weights["dense/kernel"] + weights["dense/bias"]


class Learner(MAML):
    """jax-meta's MAML; its loss is fixed to the cross entropy of all weights, so the squared error, and the shifts that
    are not adapted, have to be put in."""

    regression = False

    def loss(self, params, state, inputs, targets, args):
        prediction, state = self.model.apply(params, state, inputs, *args)
        if not self.regression:
            return super().loss(params, state, inputs, targets, args)
        value = jnp.mean(jnp.square(prediction - targets))
        return value, (state, {"loss": value})

    def adapt(self, init_params, state, inputs, targets, args):
        fixed = {path: leaf for path, leaf in init_params.items() if path.startswith("norm")}
        moving = {path: leaf for path, leaf in init_params.items() if path not in fixed}
        model, self.model = self.model, SimpleNamespace(apply=lambda p, *rest: self._plain(p | fixed, *rest))
        adapted, logs = super().adapt(moving, state, inputs, targets, args)
        self.model = model
        return adapted | fixed, logs

    def _plain(self, params, state, inputs):
        return self.network(params, inputs), state


def make(problem):
    spec = problem.spec
    learner = Learner(None, num_steps=spec["inner_steps"], alpha=spec["inner_lr"])
    learner.regression = spec["kind"] == "regression"
    learner.network = perceptron if learner.regression else conv4
    learner.model = SimpleNamespace(apply=learner._plain)
    learner._optimizer = optax.adam(spec["outer_lr"])
    batch = lambda x, y: Rows(jnp.asarray(x), jnp.asarray(y))
    train, test = batch(problem.support_x, problem.support_y), batch(problem.query_x, problem.query_y)
    params = {path: jnp.asarray(array) for path, array in problem.weights.items()}
    state = MetaLearnerState(model=(), optimizer=learner.optimizer.init(params), key=jax.random.key(0))

    def take(steps):
        nonlocal params, state
        for _ in range(steps):
            params, state, _ = learner.step(params, state, train, test)
        jax.block_until_ready(params)

    def check():
        start = {path: jnp.asarray(array) for path, array in problem.weights.items()}
        loss_and_gradient = jax.value_and_grad(learner.batch_outer_loss, has_aux=True)
        (value, _), gradient = jax.jit(loss_and_gradient, static_argnums=4)(start, (), train, test, ())
        return value, {path: numpy.asarray(leaf) for path, leaf in gradient.items()}

    @jax.jit
    def one(params, x, y, query_x):
        adapted, _ = learner.adapt(params, (), x, y, ())
        return learner.network(adapted, query_x)

    first = (problem.support_x[0], problem.support_y[0], problem.query_x[0])
    return System(check, take, lambda: numpy.asarray(one(params, *first)), versions("jax-meta", "jax"))


@jax.tree_util.register_pytree_node_class
class Rows:
    """Inputs and targets, as jax-meta's data sets give them."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def tree_flatten(self):
        return (self.inputs, self.targets), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


if __name__ == "__main__":
    speak(make)
