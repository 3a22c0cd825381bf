r"""The linear layers of the proof, chosen so that their products are the matrices it requires.

With `z = W_1 W_2 ... W_N phi`, each layer is made of blocks: tilde carries x, then x*; bar receives what the step
writes; check carries the switch. Required are, for each pair (j, l) of a bin of x and one of x*, in layer i,

    W_{i+1} ... W_N = B_jl = [[E_jj, E_jl], [E_lj, 0]] + eps I      (tilde)
    (W_1 ... W_{i-1}) (W_1 ... W_{i-1})^T = A_jl = eps I + 1 at slot j + J l      (bar)

so that x and x* meet, `phi(x)^T B^T B phi(x*) != 0`, in the one layer of their pair, which writes to the one slot.
"""

from typing import NamedTuple

import numpy as np

from fewstep.universality.plan import Plan


class Products(NamedTuple):
    """The products that layers must have, for i = 1 ... N: `tilde` the B_i, `bar` the diagonals of the A_i by slot."""

    tilde: np.ndarray
    bar: np.ndarray


def required_products(plan: Plan) -> Products:
    """B_i and A_i of all layers; the first and the last have none of their own."""
    size, eps = plan.J + plan.L, plan.epsilon
    tilde = np.tile(eps * np.eye(size), (plan.n_layers, 1, 1))
    bar = np.full((plan.n_layers, plan.slots), eps)
    for slot in range(plan.slots):
        of_x, of_query = slot % plan.J, plan.J + slot // plan.J
        tilde[slot + 1, of_x, of_x] += 1
        tilde[slot + 1, of_x, of_query] += 1
        tilde[slot + 1, of_query, of_x] += 1
        bar[slot + 1, slot] += 1
    tilde[-1], bar[0] = np.eye(size), 1.0
    return Products(tilde, bar)


def layers(plan: Plan) -> dict[str, np.ndarray]:
    """The blocks of all layers, in the order they are applied: W_N first.

    `tilde` and `bar` (a diagonal) are as above, `check` is 1. `cross` (tilde to bar) and `to_check` begin at 0: they
    are the only blocks that the step changes, since only tilde is nonzero in the forward pass, and only bar and
    check in the backward pass.
    """
    products, rows = required_products(plan), plan.slots * plan.outputs
    size = plan.J + plan.L
    before = np.concatenate([plan.epsilon * np.eye(size)[None], products.tilde[:-1]])
    after = np.concatenate([products.bar[1:], np.ones((1, plan.slots))])
    tilde = before @ np.linalg.inv(products.tilde)
    bar = np.sqrt(after / products.bar)
    return {
        "tilde": tilde[::-1],
        "bar": np.repeat(bar, plan.outputs, axis=1)[::-1],
        "check": np.ones(plan.n_layers),
        "cross": np.zeros((plan.n_layers, rows, size)),
        "to_check": np.zeros((plan.n_layers, size)),
    }
