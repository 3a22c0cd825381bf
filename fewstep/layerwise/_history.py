"""The record of every layer, and why the stacking ended."""

from collections.abc import Callable
from typing import NamedTuple


class Record(NamedTuple):
    """One layer as it was learned.

    `hsic` is the dependence on the labels normalized as the authors do, `cka` centered on both sides; `refused` counts
    bandwidths that were tried and did not raise it; `rounds` are iterations of the spectral method, and `seconds` the
    time of the layer, compiling included.
    """

    hsic: float
    cka: float
    bandwidth: float
    width: int
    silhouette: float
    refused: int
    rounds: int
    seconds: float


Watch = Callable[[int, Record], None]  # called with the number and record of each layer


class Ending(NamedTuple):
    """Whether the stacking ended by its rule, the reason in words, and how many bandwidths the last search refused."""

    converged: bool
    why: str
    refused: int = 0


def by_silhouette(history: list[Record], max_layers: int) -> Ending | None:
    """The authors' rule for the spectral network: above 0.95, or above 0.80 and still."""
    now = history[-1].silhouette
    if now > 0.95:
        return Ending(True, f"silhouette {now:.3f} is above 0.95")
    if len(history) > 1 and now > 0.80 and abs(now - history[-2].silhouette) < 0.001:
        return Ending(True, f"silhouette {now:.3f} is above 0.80 and changed by less than 0.001")
    return _by_count(history, max_layers)


def by_hsic(history: list[Record], max_layers: int, enough: float = 0.95) -> Ending | None:
    """The dependence is above `enough`."""
    now = history[-1].hsic
    if now > enough:
        return Ending(True, f"normalized HSIC {now:.3f} is above {enough:g}")
    return _by_count(history, max_layers)


def _by_count(history: list[Record], max_layers: int) -> Ending | None:
    return Ending(False, f"max_layers={max_layers} reached") if len(history) >= max_layers else None


STOPS = {"silhouette": by_silhouette, "hsic": by_hsic}
