"""A request that is refused: a status, a code for programs, and a message for people."""

from collections.abc import Sequence

from fewstep._errors import FewstepError

Headers = Sequence[tuple[bytes, bytes]]


class Refusal(Exception):
    """Becomes `{"error": {"code", "message"}}` with its status."""

    def __init__(self, status: int, code: str, message: str, headers: Headers = ()):
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, list(headers)


def invalid(code: str, message: str) -> Refusal:
    """The request cannot be done as it is."""
    return Refusal(422, code, message)


def not_found(code: str, message: str) -> Refusal:
    """There is no such thing here."""
    return Refusal(404, code, message)


def refusal_of(error: FewstepError) -> Refusal:
    """The refusal for what the library refuses."""
    make = not_found if error.code == "no_data" else invalid
    return make(error.code or "does_not_fit", str(error))


def overloaded(message: str, wait: int = 1) -> Refusal:
    """Too much at once; the same request may be sent again after a `wait` in seconds."""
    return Refusal(429, "too_many_requests", message, [(b"retry-after", b"%d" % wait)])


def unavailable(code: str, message: str) -> Refusal:
    """Not now: starting, stopping, or out of time."""
    return Refusal(503, code, message, [(b"retry-after", b"1")])


def slow_body(seconds: float) -> Refusal:
    """The time was over before the request had arrived."""
    message = f"The body took longer than {seconds:g} s to arrive. Send it again."
    return Refusal(503, "slow_body", message, [(b"retry-after", b"1"), (b"connection", b"close")])


def too_late(seconds: float) -> Refusal:
    """The time was over before there was an answer."""
    message = (
        f"The answer took longer than {seconds:g} s. Send the request again in a moment, with fewer steps, samples or "
    )
    return unavailable("out_of_time", message + "rows if it asked for many.")
