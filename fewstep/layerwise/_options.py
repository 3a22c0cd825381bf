"""Parameters of an estimator, refused in one line."""

from typing import Any

from fewstep._errors import FewstepError, unknown


def at_least(name: str, value: Any, least: float) -> None:
    """Refuses what is less, or no number."""
    if not isinstance(value, int | float) or value < least:
        raise FewstepError(f"{name}={value!r}. It must be a number of at least {least}.")


def above_zero(name: str, value: Any) -> None:
    """Refuses what is not a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise FewstepError(f"{name}={value!r}. It must be a number above 0.")


def share(width: Any) -> None:
    """Refuses what is neither a share of the singular values nor a number of directions."""
    whole = isinstance(width, int) and width >= 1
    if isinstance(width, bool) or not (whole or (isinstance(width, float) and 0 < width <= 1)):
        raise FewstepError(f"width={width!r}. Give a share above 0 and up to 1.0, or a whole number of directions.")


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuses a word that is not known."""
    if value not in known:
        raise unknown(name, str(value), known)


def check_dtype(value: str) -> None:
    """Refuses what is no type to compute in."""
    one_of("dtype", value, ("float64", "float32"))
