r"""The implicit outer gradient (iMAML): only where the inner steps come to rest counts, not the way there.

    fast = F(meta, fast)        dfast/dmeta = (I - dF/dfast)^-1 dF/dmeta,        F one inner step

so the gradient is `dL/dmeta + v dF/dmeta`, where `v (I - dF/dfast) = dL/dfast` is solved by products with dF/dfast.

Reference: Rajeswaran, Finn, Kakade & Levine, Meta-Learning with Implicit Gradients, NeurIPS 2019; Lorraine, Vicol &
Duvenaud, Optimizing Millions of Hyperparameters by Implicit Differentiation, AISTATS 2020 (the Neumann sum).
"""

from collections.abc import Callable
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Float, Key

from fewstep._contract import AFTER_TRAINING, Carry, Learner, Step, TakeSteps, takes
from fewstep._episode import Episode
from fewstep._errors import FewstepError, unknown
from fewstep._outer import Gradient, Outer
from fewstep._rule import Flat, Meta
from fewstep.compute import weighted_sum
from fewstep.outers._rest import refuse_without_rest

Solver = Literal["cg", "neumann"]
Product = Callable[[Flat], Flat]


def implicit(
    steps: Annotated[int, "Inner steps"] = 20,
    solver: Annotated[Solver, "How the system is solved: cg (a step that is a gradient's), neumann (any)"] = "cg",
    terms: Annotated[int, "Iterations of cg, or terms of the Neumann sum"] = 20,
) -> Outer:
    r"""The gradient at the point where the inner steps come to rest. Its memory does not grow with their number.

    It needs a rule whose point of rest depends on all that it learns: steps that are pulled to the start, or arrays of
    the network that no task adapts. Rates, masks and a start without a pull have no part in that point; such rules are
    refused. The gradient is exact where the steps have come to rest, and close to it near there.

    **Arguments:** `steps` inner steps; `solver`: `cg` takes the fewest iterations, and needs steps along the gradient
    itself (`sgd`); `neumann` is for all steps that come to rest, and sums as many `terms` as an unrolled gradient would
    go back steps.

    Example::

        def near(meta, prediction, batch, context):
            start = fewstep.flatten(meta["weights"])
            far = sum(jnp.sum((leaf - start[path]) ** 2) for path, leaf in context.fast.items())
            return squared_error(prediction, batch) + far

        learner = gradient_learner(mlp(), maml(0.1), squared_error, inner_loss=near)
        train(learner, tasks, steps=1000, outer=implicit(steps=50))
    """
    if solver not in ("cg", "neumann"):
        raise unknown("solver", solver, ("cg", "neumann"))
    if steps < 0 or terms < 1:
        raise FewstepError(f"steps={steps}, terms={terms}: give 0 inner steps or more, and at least one term.")

    def outer(learner: Learner) -> Gradient:
        step = _steps_of(learner)

        def one(meta: Meta, key: Key[Array, ""], episode: Episode, outer_step: Step) -> tuple[Array, Meta]:
            begin, take = step(meta, key, episode.support, outer_step=outer_step)
            end = jax.lax.fori_loop(0, steps, lambda number, carry: take(carry, number), begin)

            def query(meta: Meta, fast: Flat) -> Float[Array, ""]:
                return learner.loss(meta, key, episode, fast=fast, outer_step=outer_step)

            def once_more(meta: Meta, fast: Flat) -> Flat:
                begin, take = step(meta, key, episode.support, outer_step=outer_step)
                memory = jax.tree.map(_with_slope_of, end.memory, begin.memory)
                return take(Carry(fast, memory), steps).fast

            loss, (direct, slope) = jax.value_and_grad(query, (0, 1))(meta, end.fast)
            _, back = jax.vjp(once_more, meta, end.fast)
            solution = _SOLVERS[solver](lambda v: back(v)[1], slope, terms)
            return loss, jax.tree.map(jnp.add, direct, back(solution)[0])

        def gradient(
            meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Array, *,
            outer_step: Step = AFTER_TRAINING,
        ) -> tuple[Array, Meta]:  # fmt: skip
            refuse_without_rest(learner, episodes.support)
            losses, each = jax.vmap(one, (None, 0, 0, None))(meta, keys, episodes, outer_step)
            return losses, weighted_sum(weights, each)

        return gradient

    return outer


def _with_slope_of(last: Array, first: Array) -> Array:
    """What an inner optimizer holds in the end, which depends on the meta-parameters as what it held at first: a pull
    keeps the start there."""
    floating = jnp.issubdtype(last.dtype, jnp.floating)
    return jax.lax.stop_gradient(last) + first - jax.lax.stop_gradient(first) if floating else last


def _by_cg(product: Product, slope: Flat, terms: int) -> Flat:
    """The solution of `v - product(v) = slope` by conjugate gradients."""
    solution, _ = cg(lambda v: jax.tree.map(jnp.subtract, v, product(v)), slope, tol=1e-7, maxiter=terms)
    return solution


def _by_neumann(product: Product, slope: Flat, terms: int) -> Flat:
    """`slope + product(slope) + product(product(slope)) + ...`, so many terms."""
    add = lambda _, v: jax.tree.map(jnp.add, slope, product(v))
    return jax.lax.fori_loop(1, terms, add, slope)


_SOLVERS: dict[str, Callable[[Product, Flat, int], Flat]] = {"cg": _by_cg, "neumann": _by_neumann}


def _steps_of(learner: Learner) -> TakeSteps:
    if learner.step is None or not takes(learner.loss, "fast"):
        raise FewstepError(
            "Implicit gradients cannot train this learner: it does not learn a task by gradient steps that can be "
            "taken one by one. Use outer=unrolled, or a learner made by gradient_learner."
        )
    return learner.step
