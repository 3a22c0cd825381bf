"""The poster's claims, measured on some of its sets, and drawn."""

import numpy as np

from fewstep.layerwise import KernelEmbeddingClassifier, SpectralLayerClassifier, claims
from fewstep_studies.reproduce._figure import Figure, in_pairs, lines, picture, rows_of
from fewstep_studies.reproduce.layerwise._methods import WS
from fewstep_studies.reproduce.layerwise._rows import Claims
from fewstep_studies.reproduce.layerwise._sets import Entry

_IMAGE_ROWS = 90
_LINES = {"dependence": "H*", "scatter": "Tr(S_w) / Tr(S_b)", "squares": "squares about the class means, share",
          "entropy": "cross entropy", "from_blocks": "kernel: distance from ones and zeros"}  # fmt: skip


def measure(name: str, entry: Entry, seed: int) -> Claims:
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


def figures(claims: dict[str, Claims]) -> list[Figure]:
    """Kernel matrices of the spectral network layer by layer, and what falls as H* rises."""
    return [_by_layer(claims), _kernels(claims), _of_claims(claims)] if claims else []


def _kernels(claims: dict[str, Claims]) -> Figure:
    panels = [
        picture(f"{name}, layer {number + 1}", np.asarray(kernel), xticks=[], yticks=[])
        for name, record in claims.items() for number, kernel in enumerate(record["kernels"])
    ]  # fmt: skip
    return Figure(
        "kernels", "The kernel becomes blocks (Theorem 2)",
        f"The Gaussian kernel of the spectral network's features after each layer, {_IMAGE_ROWS} rows sorted by class: "
        "white is 0, black is 1.", panels, ("set", "layer", "from_blocks"),
        [
            (name, number + 1, part["from_blocks"])
            for name, record in claims.items() for number, part in enumerate(record["by_layer"]["ism"])
        ],
    )  # fmt: skip


def _by_layer(claims: dict[str, Claims]) -> Figure:
    data = [
        (name, method, number + 1, line, part[line])
        for name, record in claims.items() for method, parts in record["by_layer"].items()
        for number, part in enumerate(parts) for line in _LINES
    ]  # fmt: skip
    weights = {"ism": "W*", "ws": "W_s"}
    points = [(line, f"{name}, {weights[method]}", layer, value) for name, method, layer, line, value in data]
    looks = in_pairs(f"{name}, {weight}" for name in claims for weight in weights.values())
    log = {"scatter", "entropy"}
    return Figure(
        "by-layer", "What falls as H* rises (Claims 2 and 3)",
        "After each layer, on the training rows: solid the spectral network, dashed the closed form.",
        [
            lines(title, rows_of(points, line), "layer", "", looks=looks, yscale="log" if line in log else "linear")
            for line, title in _LINES.items()
        ],
        ("set", "method", "layer", "what", "value"), data,
    )  # fmt: skip


def _of_claims(claims: dict[str, Claims]) -> Figure:
    """Claims 1, 4, 5 and 6 in numbers of each layer."""
    data = [
        (name, what, number + 1, value)
        for name, record in claims.items() for what, values in _numbers(record).items()
        for number, value in enumerate(values)
    ]  # fmt: skip
    titles = {
        "refused": "Theorem 1: bandwidths refused for a layer of W_s", "residual": "Claim 5: residual at W*",
        "penalty": "Claim 6: penalty over attraction at W*",
    }  # fmt: skip
    points = [(what, name, layer, value) for name, what, layer, value in data]
    points += [
        ("residual", f"{name}, W_s", layer, record["slope_at_embedding"]["residual"])
        for name, record in claims.items() for layer in range(1, len(record["fixed_point"]) + 1)
    ]  # fmt: skip
    looks = in_pairs(label for name in claims for label in (name, f"{name}, W_s"))
    return Figure(
        "claims", "What is not so by construction",
        "Bandwidths that did not raise HSIC before one did; how far the weight is from its eigenvalue equation (the "
        "dashed line is W_s, Claim 4); and the share of the attraction that the implicit penalty takes back.",
        [
            lines(title, rows_of(points, what), "layer", "", looks=looks,
                  yscale="log" if what == "residual" else "linear") for what, title in titles.items()
        ],
        ("set", "what", "layer", "value"), data,
    )  # fmt: skip


def _numbers(record: Claims) -> dict[str, list[float]]:
    return {
        "refused": record["rise"]["refused"], "residual": [part["residual"] for part in record["fixed_point"]],
        "penalty": [part["penalty"] / part["attraction"] for part in record["penalty"]],
    }  # fmt: skip
