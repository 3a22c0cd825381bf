"""Rows of numbers: the network that fits them, their files and answers, and pictures of what is learned from them."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from fewstep import losses, networks
from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep._network import Network
from fewstep.problems._fields import check_fields, number_rows
from fewstep.problems._kind import Answer, Fields, Given, Part, Problem, Written
from fewstep.problems._options import Options, option
from fewstep.problems._own import LOSS_HELP, NETWORK_HELP, USUAL, find_loss, own_network
from fewstep.tasks import read_query, read_support

MEMBERS = ("ridge", "mtnet+rates", "meta_sgd")  # of which `auto` keeps the best


@dataclasses.dataclass(frozen=True)
class PointSizes:
    """The sizes of a task."""

    shots: int = option(10, "Points of a task that are learned from.", min=1)
    queries: int = option(10, "Points of a task that it is evaluated on.", min=1)


@dataclasses.dataclass(frozen=True)
class Perceptron:
    """The options of a perceptron and its loss."""

    network: str = option("mlp", NETWORK_HELP)
    loss: str = option(USUAL, LOSS_HELP)
    hidden: tuple[int, ...] = option((40, 40), "Widths of the hidden layers.", min=1)
    bias_inputs: int = option(0, "Learned numbers beside the input, adapted like the weights.", min=0)
    init: Literal["he", "paper"] = option("paper", "First weights: He initialization, or small as in the MT-net code.")


def make_perceptron(options: Options, inputs: int, outputs: int) -> Network:
    """The network that the options name, for rows of so many numbers."""
    if options.network != "mlp":
        return own_network(options.network, jnp.zeros((4, inputs)), outputs)
    std = 0.01 if options.init == "paper" else None
    return networks.mlp(inputs, outputs, hidden=options.hidden, std=std, bias_inputs=options.bias_inputs)


def points_problem(tasks: Callable[..., Tasks], network: Options, details: Options = None) -> Problem:
    """The problem of `tasks(shots, queries, split, ways)` whose rows of x and y are numbers, or whose y are classes."""
    some: Tasks = tasks(1, 1)
    shape = jax.eval_shape(some.sample, some.data, jax.eval_shape(lambda: jax.random.key(0))).query
    x, classes = shape.x.shape[1:], jnp.issubdtype(shape.y.dtype, jnp.integer)
    if classes:
        raise FewstepError(f"The tasks give whole numbers ({shape.y.dtype}) as y. Give y as floats, one row per point.")
    outputs = shape.y.shape[-1]
    usual = make_perceptron(network, x[-1], outputs)
    loss = find_loss(network.loss, outputs, classes=False)
    return Problem(
        tasks, lambda outputs=None, norm=None: usual if outputs is None else make_perceptron(network, x[-1], outputs),
        loss, losses.squared_error, "mse", losses.squared_error, x, outputs, details=details,
    )  # fmt: skip


def read_points(problem: Problem, source: Path | Fields, part: Part) -> Given:
    """Points of a CSV or npz file, or of the fields of a request: x and, in a support, y."""
    if isinstance(source, Mapping):
        return _read_fields(problem, source, part)
    if part == "support":
        x, y = read_support(source)
        if x.shape[1:] != problem.x:
            raise FewstepError(f"{source} has {x.shape[1]} columns of x beside y, and the run takes {problem.x[0]}.")
        return Given(x, y)
    return Given(read_query(source, problem.x), np.zeros(0))


def _read_fields(problem: Problem, fields: Fields, part: Part) -> Given:
    learns = part == "support"
    check_fields(fields, part, *(("x", "y") if learns else ("x",)))
    x = number_rows(fields, part, "x", problem.x)
    return Given(x, number_rows(fields, part, "y", (problem.outputs,)) if learns else np.zeros(0))


def write_points(problem: Problem, query: Given, answer: Answer) -> Written:
    """x and the prediction, with its interval if it has one: one column for each number of them."""
    names = lambda stem, count: [stem] if count == 1 else [f"{stem}{n + 1}" for n in range(count)]
    x = zip(names("x", query.x.shape[1]), query.x.T.tolist(), strict=True)
    parts = {"prediction": answer.mean} | ({"low": answer.low, "high": answer.high} if answer.predictive else {})
    y = [pair for stem, part in parts.items() for pair in zip(names(stem, part.shape[1]), part.T.tolist(), strict=True)]
    return Written({**dict(x), **dict(y)}, {"x": query.x.tolist()} | {s: part.tolist() for s, part in parts.items()})
