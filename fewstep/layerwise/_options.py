"""Checks of an estimator's parameters."""

from numbers import Integral, Real

from fewstep._errors import FewstepError, unknown


def check_integer(name: str, value: object, min_value: int) -> int:
    """The integer. Raises `FewstepError` if it is less, or not an integer."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < min_value:
        raise FewstepError(f"{name}={value!r}. It must be an integer of at least {min_value}.")
    return int(value)


def check_positive(name: str, value: object) -> float:
    """The number. Raises `FewstepError` unless it is finite and above 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise FewstepError(f"{name}={value!r}. It must be a number above 0.")
    return float(value)


def check_bandwidth(value: object) -> str | float:
    """A rule for bandwidths."""
    return (
        "hsic" if isinstance(value, str) and value == "hsic" else check_positive("bandwidth (other than 'hsic')", value)
    )


def check_width(width: object) -> float | int:
    """A share of the singular values, or a number of directions. Raises `FewstepError` for others."""
    if isinstance(width, Integral) and not isinstance(width, bool) and int(width) >= 1:
        return int(width)
    if isinstance(width, Real) and not isinstance(width, Integral) and 0 < float(width) <= 1:
        return float(width)
    raise FewstepError(f"width={width!r}. Give a share above 0 and up to 1.0, or a whole number of directions.")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raises `FewstepError` for an unknown word."""
    if value not in choices:
        raise unknown(name, str(value), choices)


def check_dtype(value: str) -> None:
    """Raises `FewstepError` unless it is a type to compute in."""
    check_choice("dtype", value, ("float64", "float32"))
