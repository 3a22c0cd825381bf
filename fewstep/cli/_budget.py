"""`--budget`: a time to train for."""

from fewstep._errors import FewstepError


def seconds_of(text: str) -> float:
    """A time such as 90s, 30m or 1.5h."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    try:
        seconds = float(text[:-1]) * units[text[-1:]]
    except (ValueError, KeyError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise FewstepError(f"--budget is {text!r}. Give a time such as 90s, 30m or 1.5h.")
    return seconds
