"""The poster's claims, measured on some of its sets, and drawn."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fewstep.layerwise import KernelEmbeddingClassifier, SpectralLayerClassifier, claims
from fewstep.reproduce._figure import Figure, style
from fewstep.reproduce.layerwise._methods import WS
from fewstep.reproduce.layerwise._sets import Entry

SETS = ("random", "adversarial", "wine")
_IMAGE_ROWS = 90
_LINES = {"dependence": "H*", "scatter": "Tr(S_w) / Tr(S_b)", "squares": "squares about the class means, share",
          "entropy": "cross entropy", "from_blocks": "kernel: distance from ones and zeros"}  # fmt: skip
Told = dict[str, Any]


def measure(name: str, entry: Entry, seed: int) -> Told:
    """All claims on one set, with the authors' options for it."""
    x, y = entry.read()
    ism = SpectralLayerClassifier(random_state=seed, calibrate=False, balance=False).fit(x, y)
    ws = KernelEmbeddingClassifier(random_state=seed, calibrate=False, **WS.get(name, {})).fit(x, y)
    some = np.random.default_rng(seed).permutation(len(x))[:_IMAGE_ROWS]
    return {
        "rise": claims.rise_of(ws)._asdict(),
        "slope_at_embedding": claims.slope_at_embedding(x, y, seed),
        "fixed_point": claims.fixed_point(ism, x, y),
        "penalty": [part._asdict() | {"weights": None} for part in claims.penalty(ism, x, y)],
        "layers": dict(zip(("ism", "ws"), claims.depths(ism, ws), strict=True)),
        "by_layer": {
            "ism": [part._asdict() for part in claims.by_layer(ism, x, y)],
            "ws": [part._asdict() for part in claims.by_layer(ws, x, y)],
        },
        "kernels": [np.round(kernel, 2).tolist() for kernel in claims.kernels(ism, x[some], y[some])],
    }  # fmt: skip


def table(told: dict[str, Told]) -> tuple[list[str], list[list[str]]]:
    """What was measured of each claim, a line a set."""
    head = [
        "set", "Theorem 1: H* of W_s", "refused", "ended by", "Claim 4: slope at W_s", "Claim 5: residual of W*",
        "layers W* / W_s", "Claim 6: attraction, penalty, last layer",
    ]  # fmt: skip
    return head, [[name, *_cells(found)] for name, found in told.items()]


def _cells(found: Told) -> list[str]:
    rise, last = found["rise"], found["penalty"][-1]
    return [
        " ".join(f"{value:.2f}" for value in rise["dependence"]),
        " ".join(map(str, [*rise["refused"], rise["refused_at_the_end"]])), rise["why"],
        f"{found['slope_at_embedding']['slope']:.2f}",
        " ".join(f"{part['residual']:.1g}" for part in found["fixed_point"]),
        f"{found['layers']['ism']} / {found['layers']['ws']}", f"{last['attraction']:.4g}, {last['penalty']:.4g}",
    ]  # fmt: skip


def figures(told: dict[str, Told]) -> list[Figure]:
    """Kernel matrices of the spectral network layer by layer, and what falls as H* rises."""
    if not told:
        return []
    images: list[Callable[[Any], None]] = [
        partial(_image, f"{name}, layer {number + 1}", kernel)
        for name, found in told.items() for number, kernel in enumerate(found["kernels"])
    ]  # fmt: skip
    kernels = Figure(
        "kernels", "The kernel becomes blocks (Theorem 2)",
        f"The Gaussian kernel of the spectral network's features after each layer, {_IMAGE_ROWS} rows sorted by class: "
        "white is 0, black is 1.", images, ("set", "layer", "from_blocks"),
        [(name, n + 1, part["from_blocks"]) for name, f in told.items() for n, part in enumerate(f["by_layer"]["ism"])],
    )  # fmt: skip
    data = [
        (name, method, number + 1, line, part[line])
        for name, found in told.items() for method, parts in found["by_layer"].items()
        for number, part in enumerate(parts) for line in _LINES
    ]  # fmt: skip
    lines = Figure(
        "by-layer", "What falls as H* rises (Claims 2 and 3)",
        "After each layer, on the training rows: solid the spectral network, dashed the closed form.",
        [partial(_lines, line, title, data) for line, title in _LINES.items()],
        ("set", "method", "layer", "what", "value"), data,
    )  # fmt: skip
    return [lines, kernels, _of_claims(told)]


def _of_claims(told: dict[str, Told]) -> Figure:
    """Claims 1, 4, 5 and 6 in numbers of each layer."""
    data = [
        (name, what, n + 1, v) for name, f in told.items() for what, vs in _numbers(f).items() for n, v in enumerate(vs)
    ]
    titles = {
        "refused": "Theorem 1: bandwidths refused for a layer of W_s", "residual": "Claim 5: residual at W*",
        "penalty": "Claim 6: penalty over attraction at W*",
    }  # fmt: skip
    return Figure(
        "claims", "What is not so by construction",
        "Bandwidths that did not raise HSIC before one did; how far the weight is from its eigenvalue equation (the "
        "dashed line is W_s, Claim 4); and the share of the attraction that the implicit penalty takes back.",
        [partial(_claim, what, title, data, told) for what, title in titles.items()],
        ("set", "what", "layer", "value"), data,
    )  # fmt: skip


def _numbers(found: Told) -> dict[str, list[float]]:
    return {
        "refused": found["rise"]["refused"], "residual": [part["residual"] for part in found["fixed_point"]],
        "penalty": [part["penalty"] / part["attraction"] for part in found["penalty"]],
    }  # fmt: skip


def _claim(what: str, title: str, data: list[tuple[Any, ...]], told: dict[str, Told], ax: Any) -> None:
    for number, name in enumerate(told):
        mine = [row[2:] for row in data if row[:2] == (name, what)]
        ax.plot(*zip(*mine, strict=True), label=name, marker="o", markersize=3, **style(number))
        if what == "residual":
            ax.axhline(told[name]["slope_at_embedding"]["residual"], linestyle="--", color=style(number)["color"])
    ax.set(title=title, xlabel="layer", yscale="log" if what == "residual" else "linear")
    ax.legend(fontsize=7)


def _image(title: str, kernel: list[list[float]], ax: Any) -> None:
    ax.imshow(np.asarray(kernel), cmap="Grays", vmin=0, vmax=1, interpolation="nearest")
    ax.set(title=title, xticks=[], yticks=[])


def _lines(line: str, title: str, data: list[tuple[Any, ...]], ax: Any) -> None:
    names = list(dict.fromkeys(row[0] for row in data))
    for number, name in enumerate(names):
        for method, dash in (("ism", "-"), ("ws", "--")):
            mine = [(row[2], row[4]) for row in data if row[0] == name and row[1] == method and row[3] == line]
            look = style(number) | {"linestyle": dash, "marker": "o", "markersize": 3}
            ax.plot(*zip(*mine, strict=True), label=f"{name}, {'W*' if method == 'ism' else 'W_s'}", **look)
    if line not in ("dependence", "from_blocks", "squares"):
        ax.set_yscale("log")
    ax.set(title=title, xlabel="layer")
    if line == "dependence":
        ax.legend(fontsize=7)
