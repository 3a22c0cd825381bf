"""Parameters of an estimator, refused in one line."""

from typing import Any

from fewstep._errors import FewstepError, unknown


def at_least(name: str, value: Any, least: float) -> None:
    """Refuses what is less, or no number."""
    if not isinstance(value, int | float) or value < least:
        raise FewstepError(f"{name}={value!r}. It must be a number of at least {least}.")


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuses a word that is not known."""
    if value not in known:
        raise unknown(name, str(value), known)


def check_dtype(value: str) -> None:
    """Refuses what is no type to compute in."""
    one_of("dtype", value, ("float64", "float32"))
