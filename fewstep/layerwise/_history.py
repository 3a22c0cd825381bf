"""What is told of every layer, and why the stacking ended."""

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


Watch = Callable[[int, Record], None]  # told of each layer, by its number, when it is learned


class Stopped(NamedTuple):
    """Whether the stacking ended by its rule, in words why, and how many bandwidths the last search refused."""

    converged: bool
    why: str
    refused: int = 0


def by_silhouette(history: list[Record], most: int) -> Stopped | None:
    """The authors' rule for the spectral network: above 0.95, or above 0.80 and still."""
    now = history[-1].silhouette
    if now > 0.95:
        return Stopped(True, f"silhouette {now:.3f} is above 0.95")
    if len(history) > 1 and now > 0.80 and abs(now - history[-2].silhouette) < 0.001:
        return Stopped(True, f"silhouette {now:.3f} is above 0.80 and changed by less than 0.001")
    return _at_most(history, most)


def by_hsic(history: list[Record], most: int, enough: float = 0.95) -> Stopped | None:
    """The dependence is above `enough`."""
    now = history[-1].hsic
    return Stopped(True, f"normalized HSIC {now:.3f} is above {enough:g}") if now > enough else _at_most(history, most)


def _at_most(history: list[Record], most: int) -> Stopped | None:
    return Stopped(False, f"max_layers={most} reached") if len(history) >= most else None


STOPS = {"silhouette": by_silhouette, "hsic": by_hsic}
