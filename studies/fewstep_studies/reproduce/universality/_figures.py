"""The figures: the target beside what the step makes, the error against bins, and where information sits."""

import dataclasses
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from fewstep.universality import Target, checks, evaluate
from fewstep.universality.construct import Construction, construct
from fewstep.universality.plan import Plan
from fewstep_studies.reproduce._figure import Figure, keys, lines, picture, style
from fewstep_studies.reproduce._rows import Row
from fewstep_studies.reproduce.universality._measure import Image

_PIXELS = 48
_SMALL = 3  # bins of the picture of the layers, or as many as there are examples


def pictures(target: Target, built: Construction) -> dict[str, tuple[Image, Image]]:
    """The target and the learner over x and x*, for several y of the first example; other examples stay."""
    low, high = built.plan.y_box[0]
    ys = [low + share * (high - low) for share in (0.1, 0.5, 0.9)]
    return {repr(y): _pictures(target, built, y) for y in map(float, ys)}


def side_by_side(name: str, plan: Plan, pictures: Mapping[str, tuple[Image, Image]]) -> Figure:
    """The target beside what the step makes."""
    images = {float(y): np.asarray(pair) for y, pair in pictures.items()}
    size = max(float(np.abs(pair).max()) for pair in images.values())
    box = plan.x_box[0] * 2
    look = {"cmap": "RdBu", "vmin": -size, "vmax": size, "extent": box}
    panels = [
        picture(f"{what}, y = {y:.2g}", pair[kind], look=look, xlabel="x", ylabel="x*")
        for kind, what in enumerate(("target", "one gradient step")) for y, pair in images.items()
    ]  # fmt: skip
    stay = [f"at {x.tolist()}, y {y:g}" for x, y in _others(plan)]
    more = "" if not stay else f" The other example{'s stay' if len(stay) > 1 else ' stays'} {'; '.join(stay)}."
    data = [
        (what, y, row, column, float(image[row, column]))
        for y, pair in images.items()
        for what, image in zip(("target", "step"), pair, strict=True)
        for row in range(0, _PIXELS, 4) for column in range(0, _PIXELS, 4)
    ]  # fmt: skip
    return Figure(
        f"learner-{name}", f"{name}: the target, and the network after one step",
        f"From left to right the example's x, upwards x*; {plan.bins} bins of each." + more, panels,
        ("what", "y", "row", "column", "value"), data,
    )  # fmt: skip


def _others(plan: Plan) -> list[tuple[np.ndarray, float]]:
    """All examples but the first, in bins apart."""
    low, high = plan.y_box[0]
    apart = plan.J // plan.examples
    return [
        (plan.centers()[(plan.J // 3 + number * apart) % plan.J], low + (0.3 + 0.4 * number) % 1 * (high - low))
        for number in range(plan.examples - 1)
    ]


def _pictures(target: Target, built: Construction, y: float) -> tuple[Image, Image]:
    """Both as images: rows are x* from below, columns the x of the first example. Where two examples fall into one bin
    there is no answer, and the picture stays white."""
    plan = built.plan
    low, high = plan.x_box[0]
    along = low + (high - low) * (np.arange(_PIXELS) + 0.5) / _PIXELS
    others = _others(plan)
    xs = np.stack([np.array([[x], *(other for other, _ in others)]) for x in along])
    ys = np.array([[y], *([its_y] for _, its_y in others)])
    many = lambda part: np.repeat(part, _PIXELS, axis=0)
    wanted = evaluate(
        plan, target, many(xs), np.tile(ys, (_PIXELS**2, 1, 1)), np.tile(along, _PIXELS)[:, None]
    ).reshape(_PIXELS, _PIXELS)  # fmt: skip
    bins = [np.unique(np.asarray(plan.bin_of(jnp.asarray(x)))).size for x in xs]
    blank = np.zeros(_PIXELS)
    columns = [
        built.learn(x, ys, along[:, None])[:, 0] if n == plan.examples else blank for x, n in zip(xs, bins, strict=True)
    ]
    return wanted.T[::-1].tolist(), np.stack(columns).T[::-1].tolist()


def against_bins(rows: list[Row]) -> Figure:
    """The error of the learner against the number of bins."""
    data = [(row.method, row.more["bins"], row.mean, row.more["largest"]) for row in rows if "bins" in row.more]
    points = [row[:3] for row in data]
    (_, bins, error), first = points[0], [row for row in points if row[0] == points[0][0]]
    guide = [("1 / bins", row[1], 1.5 * (error or 0.0) * bins / row[1]) for row in first]
    looks = {name: style(number + 1) for number, name in enumerate(keys(points))}
    looks["1 / bins"] = {"linewidth": 0.7, "color": "gray", "marker": ""}
    return Figure(
        "bins", "More bins, a nearer learner",
        "Root mean square of the learner's error at drawn examples; the thin line falls as 1 / bins.",
        [lines("", points + guide, "bins of x and of x*", "error", looks=looks, xscale="log", yscale="log")],
        ("target", "bins", "root mean square", "largest"), data,
    )  # fmt: skip


def information(target: Target, plan: Plan) -> Figure:
    """A small construction from the inside: activations before the step, what the step changes, and after it."""
    bins = max(_SMALL, plan.examples)
    small = dataclasses.replace(plan, bins=bins, query_bins=None)
    built = construct(target, small)
    x, y, x_star = (
        small.centers()[: small.examples],
        np.full((small.examples, 1), small.y_box[0][1]),
        small.centers()[-1:],
    )
    before, after = checks.flows(built, x, y, x_star)
    changed = np.asarray(built.adapt(x, y).fast["layers/cross"])
    parts = {
        "before the step, at x": _stacked(before), 
        "what the step writes into each layer": np.abs(changed).max(axis=2).T,
        "after the step, at x*": _stacked(after),
    }  # fmt: skip
    data = [
        (title, int(row), int(column), float(image[row, column]))
        for title, image in parts.items() for row, column in zip(*np.nonzero(image), strict=True)
    ]  # fmt: skip
    return Figure(
        "information", "Where x, y and x* are",
        f"{bins} bins each: from left to right the layers in the order they are applied, downwards the units: above "
        f"the line tilde ({2 * bins} units: x, then x*), below it bar ({bins**2} slots) and last the switch. "
        "Before the step only x is there. The step writes y into the layers' blocks from tilde to bar, each layer for "
        "one pair of bins. After it, x* picks its layer's block, and the one slot of the pair lights up.",
        [
            picture(
                title, np.sqrt(image / (image.max() or 1.0)), look={"aspect": "auto"},
                line=2 * bins - 0.5 if "step, at" in title else None,
                xlabel="layer, in the order applied", ylabel="unit",
            ) for title, image in parts.items()
        ],
        ("what", "unit", "layer", "value"), data,
    )  # fmt: skip


def _stacked(flow: checks.Signal) -> np.ndarray:
    """Units by layers, of the first row."""
    parts = [np.asarray(flow.tilde[:, 0]), np.asarray(flow.bar[:, 0]), np.asarray(flow.check[:, :1])]
    return np.abs(np.concatenate(parts, axis=1)).T
