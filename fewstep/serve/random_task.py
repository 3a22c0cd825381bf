"""A random task that training never saw, as a client would send it."""

import threading
from collections.abc import Callable

import msgspec

from fewstep._errors import FewstepError
from fewstep.serve.errors import invalid, refusal_of
from fewstep.serve.parsing import check_max
from fewstep.serve.schema import MAX_SHOTS, TaskRequest, TaskResponse
from fewstep.serve.served_model import ServedModel


class TaskDrawer:
    """Draws tasks; what is loaded and compiled for a model is kept."""

    def __init__(self) -> None:
        self._draws: dict[str, Callable[[int, int], object]] = {}
        self._lock = threading.Lock()

    def draw(self, served: ServedModel, request: TaskRequest) -> TaskResponse:
        """Draws a task of the model's kind; blocks."""
        example, shots = served.kind.example, request.shots or served.experiment.shots
        if example is None:
            reason = "The tasks of this model are their owner's; none can be drawn."
            raise invalid("does_not_apply", f"{reason} Send rows of your own.")
        ways, points = served.problem.ways or 1, served.limits.points
        check_max("points", shots * ways, points)
        with self._lock:  # so that two requests at once do not load twice
            try:
                if served.name not in self._draws:
                    self._draws[served.name] = example(served.problem, max(1, min(MAX_SHOTS, points // ways)))
                return msgspec.convert(self._draws[served.name](request.seed, shots), TaskResponse)
            except FewstepError as error:
                raise refusal_of(error) from None
