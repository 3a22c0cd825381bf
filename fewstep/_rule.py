"""A rule fills the inner loop's two holes: how fast weights become the network's, how a gradient becomes a step."""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import jax
import optax
from jaxtyping import Array, Float, Key, PyTree

from fewstep._errors import FewstepError, unknown
from fewstep._network import Layer

Flat = dict[str, Array]
Layers = tuple[Layer, ...]
Meta = dict[str, PyTree]
Units = Callable[[Layers, Meta, Key[Array, ""]], Flat]
SupportLoss = Callable[..., Float[Array, ""]]  # of a prediction, a batch and, by keyword, the context
_HOLES = ("init", "start", "realize", "update", "units", "loss")


class Stage(IntEnum):
    """Where a link stands in a chain, whatever order it was written in."""

    CHOOSE = 0  # which arrays are adapted
    SHAPE = 1  # how the adapted arrays become the network's
    PRECONDITION = 2  # what a gradient is multiplied by: before the optimizer and its clip, and before masks
    OPTIMIZE = 3  # how a gradient becomes a step
    TRANSFORM = 4  # what a learned function makes of the step: before masks, which have the last word
    SCALE = 5  # what the step is multiplied by: after the optimizer, or Adam would undo it
    REPLACE = 6  # what takes the place of the step: nothing scales it


class Rule(NamedTuple):
    """One link of a method, or a whole method: pure functions that the inner loop calls.

    - `init(layers, key, fast)` makes the link's own meta-parameters, as a dict;
    - `start(layers, meta, fast)` picks what is adapted from the network's arrays, given by path;
    - `realize(layers, meta, params)` turns arrays, adapted and not, into those the network computes with;
    - `update(layers, meta, key)` gives the optax transformation that makes a gradient into a step.

    Some rules have `units(layers, meta, key)` too: for each masked layer, by path, how far a task may move each of its
    units: the bits drawn for this key, or probabilities. Some have `loss(layers, meta, support_loss)`: it makes a loss
    on the support out of the one there is, both called as `support_loss(prediction, batch, context=context)`.

    `name` and `stage` tell `chain` where a link belongs, and `links` are those of a chain. The rest says what a link
    does, and for a chain what any of its links does: `sets_step_size` if it learns how far a step goes; `fixed_step` if
    it is a plain step of fixed size, which such a link replaces; `draws` if it draws random masks.
    """

    init: Callable[[Layers, Key[Array, ""], Flat], Meta]
    start: Callable[[Layers, Meta, Flat], Flat]
    realize: Callable[[Layers, Meta, Flat], Flat]
    update: Callable[[Layers, Meta, Key[Array, ""]], optax.GradientTransformation]
    name: str = "rule"
    stage: Stage = Stage.SHAPE
    links: tuple["Rule", ...] = ()
    units: Units | None = None
    sets_step_size: bool = False
    fixed_step: bool = False
    draws: bool = False
    loss: Callable[[Layers, Meta, SupportLoss], SupportLoss] | None = None


def link(
    name: str,
    stage: Stage,
    *,
    sets_step_size: bool = False,
    fixed_step: bool = False,
    draws: bool = False,
    **holes: Callable,
) -> Rule:
    """A rule that fills some of the holes and leaves the rest as they are.

    **Arguments:** any of `init`, `start`, `realize`, `update`, `units` and `loss`; the rest as in `Rule`.

    **Returns:** a link for `chain`. Raises `FewstepError` for a hole that a rule does not have.
    """
    for hole in holes.keys() - {*_HOLES}:
        raise unknown(f"hole of the link {name!r}:", hole, _HOLES)
    return Rule(
        holes.get("init", lambda layers, key, fast: {}), holes.get("start", lambda layers, meta, fast: fast),
        holes.get("realize", lambda layers, meta, params: params),
        holes.get("update", lambda layers, meta, key: optax.identity()), name, stage, units=holes.get("units"),
        sets_step_size=sets_step_size, fixed_step=fixed_step, draws=draws, loss=holes.get("loss"),
    )  # fmt: skip


def chain(*links: Rule) -> Rule:
    """Makes one rule of several: `chain(metric(), mask(), rates(0.01))`.

    The links work in the order of their stages, not in the order they are written: the choice of layers, the metric,
    the optimizer, a learned function of its output, then masks and rates. Learned rates replace the step size of `sgd`.

    **Arguments:** rules; a chain among them is taken apart.

    **Returns:** a `Rule`. Raises `FewstepError` when a link is there twice.
    """
    flat = [part for rule in links for part in (rule.links or (rule,))]
    names = [part.name for part in flat]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FewstepError(f"The chain holds {', '.join(twice)} twice. Keep one of each.")
    if any(part.sets_step_size for part in flat):
        flat = [part for part in flat if not part.fixed_step]
    parts = tuple(sorted(flat, key=lambda part: part.stage))

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        meta: Meta = {}
        for number, part in enumerate(parts):
            own = part.init(layers, jax.random.fold_in(key, number), fast)
            meta |= own_names(f"link {part.name!r}", own, {"weights": (), **meta})
            fast = _chosen(part, part.start(layers, meta, fast))
        return meta

    def start(layers: Layers, meta: Meta, fast: Flat) -> Flat:
        for part in parts:
            fast = _chosen(part, part.start(layers, meta, fast))
        return fast

    def realize(layers: Layers, meta: Meta, params: Flat) -> Flat:
        for part in parts:
            params = part.realize(layers, meta, params)
        return params

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        steps = [part.update(layers, meta, jax.random.fold_in(key, number)) for number, part in enumerate(parts)]
        return optax.chain(*_descent(parts), *steps)

    def units(layers: Layers, meta: Meta, key: Key[Array, ""]) -> Flat:
        every: Flat = {}
        for number, part in enumerate(parts):
            own = part.units(layers, meta, jax.random.fold_in(key, number)) if part.units else {}
            every |= {path: every[path] * row if path in every else row for path, row in own.items()}
        return every

    def loss(layers: Layers, meta: Meta, support_loss: SupportLoss) -> SupportLoss:
        for part in parts:
            support_loss = part.loss(layers, meta, support_loss) if part.loss else support_loss
        return support_loss

    return Rule(
        init, start, realize, update, "+".join(part.name for part in parts), links=parts,
        units=units if any(part.units for part in parts) else None,
        sets_step_size=any(part.sets_step_size for part in parts),
        fixed_step=any(part.fixed_step for part in parts),
        draws=any(part.draws for part in parts),
        loss=loss if any(part.loss for part in parts) else None,
    )  # fmt: skip


def own_names(maker: str, own: Meta, meta: Meta) -> Meta:
    """Meta-parameters that a link or an inner loss made, under names that nothing else has."""
    for name in own.keys() & meta.keys():
        whose = "the network has" if name == "weights" else "a link of the rule has"
        raise FewstepError(
            f"The {maker} makes meta-parameters named {name!r}, as {whose}, and would overwrite them. Give them a name "
            "of their own."
        )
    return own


def _chosen(part: Rule, fast: Flat) -> Flat:
    if not fast:
        raise FewstepError(
            f"No array is left to adapt: the link {part.name!r} leaves out all that may move. Let it keep at least one."
        )
    return fast


def _descent(parts: tuple[Rule, ...]) -> list[optax.GradientTransformation]:
    """Plain descent where only rates say how far to go; an error where nothing does."""
    if any(part.stage == Stage.OPTIMIZE for part in parts):
        return []
    if not any(part.sets_step_size for part in parts):
        raise FewstepError("The rule has no step size. Add one to the chain: sgd(0.01), optimizer(...) or rates(0.01).")
    return [optax.scale(-1.0)]
