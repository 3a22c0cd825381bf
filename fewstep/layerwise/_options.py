"""Parameters of an estimator, refused in one line."""

from numbers import Integral, Real
from typing import Any

from fewstep._errors import FewstepError, unknown


def at_least(name: str, value: Any, least: int) -> int:
    """The whole number; refuses what is less, or none."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise FewstepError(f"{name}={value!r}. It must be a whole number of at least {least}.")
    return int(value)


def above_zero(name: str, value: Any) -> float:
    """The number; refuses what is not a finite one above 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise FewstepError(f"{name}={value!r}. It must be a number above 0.")
    return float(value)


def hsic_or_number(value: Any) -> str | float:
    """A rule for bandwidths."""
    return value if isinstance(value, str) and value == "hsic" else above_zero("bandwidth (other than 'hsic')", value)


def share(width: Any) -> float | int:
    """Refuses what is neither a share of the singular values nor a number of directions."""
    if isinstance(width, Integral) and not isinstance(width, bool) and int(width) >= 1:
        return int(width)
    if isinstance(width, Real) and not isinstance(width, Integral) and 0 < float(width) <= 1:
        return float(width)
    raise FewstepError(f"width={width!r}. Give a share above 0 and up to 1.0, or a whole number of directions.")


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuses a word that is not known."""
    if value not in known:
        raise unknown(name, str(value), known)


def check_dtype(value: str) -> None:
    """Refuses what is no type to compute in."""
    one_of("dtype", value, ("float64", "float32"))
