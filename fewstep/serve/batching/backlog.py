"""How much work of one client may wait."""

import math

from fewstep.serve.errors import overloaded


class Backlog:
    """The estimated seconds of work that each client has waiting."""

    def __init__(self, limit: float):
        self._limit = limit
        self._waiting: dict[str, float] = {}

    def enter(self, client: str, seconds: float) -> None:
        """Counts work. Raises a `Refusal` if that client has too much already; one piece is always admitted."""
        waiting = self._waiting.get(client, 0.0)
        if waiting and waiting + seconds > self._limit:
            raise overloaded(
                f"About {waiting:.1f} s of work of yours ({client}) is waiting, this request takes about {seconds:.1f} "
                f"s, and the limit for one client is {self._limit:g} s. Wait for answers before you send more, or ask "
                "for fewer steps, samples or rows.",
                wait=math.ceil(waiting),
            )
        self._waiting[client] = waiting + seconds

    def leave(self, client: str, seconds: float) -> None:
        """Counts it no more."""
        rest = self._waiting[client] - seconds
        if rest > 1e-9:
            self._waiting[client] = rest
        else:
            del self._waiting[client]
