"""What is measured of a construction, as rows: what was found, what the proof says, and whether they agree."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp

from fewstep.files import JSON
from fewstep.universality import Target, checks
from fewstep.universality.construct import Construction, construct
from fewstep.universality.losses import which_carry
from fewstep.universality.plan import Plan
from fewstep_studies.reproduce._rows import Row

EXACT = 1e-12
ALPHAS, EPSILONS = checks.ALPHAS, checks.EPSILONS
Image = Sequence[Sequence[float]]


class Measurement(NamedTuple):
    """The rows of a cell; `pictures` of the target and of the step, by the y of the first example."""

    rows: list[Row]
    pictures: Mapping[str, tuple[Image, Image]] = {}


def layers_rows(name: str, built: Construction) -> list[Row]:
    """The layers before any step."""
    off, kernel = checks.products(built), checks.kernel(built)
    two = 1 + 2 * built.plan.epsilon
    return [
        _row(name, "products of the layers (tilde) - B_i, at most", off.tilde, "0", off.tilde < EXACT),
        _row(name, "products of the layers (bar) - A_i, at most", off.bar, "0", off.bar < EXACT),
        _row(name, "k in the layer of the pair of bins", kernel.own, f"{two:g}", abs(kernel.own - two) < EXACT),
        _row(name, "k in all other layers, at most", kernel.elsewhere, "0", kernel.elsewhere < EXACT),
    ]  # fmt: skip


def step_rows(name: str, target: Target, plan: Plan, built: Construction, *, quick: bool) -> list[Row]:
    """The step: what it writes, and how that depends on its size."""
    step, over = checks.closed_form(built), checks.over_alpha(built)
    epsilons = (EPSILONS[0], EPSILONS[-1]) if quick else EPSILONS
    small = checks.over_epsilon(target, plan, epsilons)
    ranks, most = checks.ranks(built), min(plan.examples, plan.outputs)
    return [
        _row(name, "bar block after the step - closed form, relative, all bins", step.error, "0", step.error < EXACT),
        _row(name, f"the same for alpha {ALPHAS[0]:g} to {ALPHAS[-1]:g}", max(over), "0", max(over) < EXACT),
        _row(name, f"answers for epsilon {EPSILONS[-1]:g} to {EPSILONS[0]:g}, apart at most", max(small), "0",
             max(small) < 1e-9),
        _row(name, "rank of the step in a layer", ranks.of_a_layer, f"at most {most}",
             ranks.of_a_layer <= most),
        _row(name, "rank of the change of all layers' product", ranks.of_the_product, f"above {most}",
             ranks.of_the_product > most),
    ]  # fmt: skip


def relu_rows(name: str, target: Target, plan: Plan, built: Construction) -> list[Row]:
    """ReLUs between the layers: the proof's, and the framework's, whose derivative at 0 is 0."""
    proof, framework = (
        construct(target, dataclasses.replace(plan, activation=kind)) for kind in ("relu", "framework relu")
    )
    before, after = checks.min_activation(built)  # without ReLUs, which would hide what is below 0
    with_relu, lost = checks.closed_form(proof), checks.max_written(framework)
    least = min(before, after)
    return [
        _row(name, "smallest activation of any layer, before and after the step", least, "not below 0", least > -EXACT),
        _row(name, "with ReLU, derivative 1 at 0: bar block - closed form", with_relu.error, "0",
             with_relu.error < EXACT),
        _row(name, "with the framework's ReLU: largest entry written", lost, "0: the update is killed", lost == 0),
    ]  # fmt: skip


def perceptron_row(name: str, target: Target, plan: Plan) -> Row:
    """The whole learner against its target, its read-out a trained perceptron instead of a table."""
    error = checks.error(construct(target, plan, readout="mlp"), target)
    what = f"error with {plan.bins} bins, read out by a trained perceptron, root mean square"
    return _row(name, what, error.root_mean_square, "as by a table", None)


def bins_rows(name: str, target: Target, plan: Plan, bins: tuple[int, ...], smooth: bool) -> list[Row]:
    """The error for more and more bins: for a smooth target it halves as they double."""
    errors = checks.over_bins(target, plan, bins)
    rows = []
    for number, (count, error) in enumerate(zip(bins, errors, strict=True)):
        fell = None if number == 0 else error.root_mean_square / errors[number - 1].root_mean_square
        meets = None if fell is None or not smooth else fell < 0.7
        proof = "falls as 1 / bins" if smooth else "falls"
        what = f"error with {count} bins, read out by a table, root mean square"
        rows.append(_row(name, what, error.root_mean_square, proof, meets, bins=count, largest=float(error.largest)))
    return rows


def loss_rows() -> list[Row]:
    """Which losses carry y."""
    carry = {"squared error": True, "cross entropy": True, "absolute error": False, "Huber": False, "hinge": False}
    return [
        _row("-", f"{loss.name}: least distance of two gradients", loss.min_distance,
             "carries y" if carry[loss.name] else "loses y", loss.carries == carry[loss.name],
             gradients=jnp.asarray(loss.gradients).tolist())
        for loss in which_carry()
    ]  # fmt: skip


def _row(target: str, what: str, value: float, proof: str, meets: bool | None, **more: JSON) -> Row:
    verdict = "-" if meets is None else "meets" if meets else "misses"
    return Row(target, {}, what, float(value), published=proof, verdict=verdict, more=more)
