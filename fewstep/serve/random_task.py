"""A random task that training never saw, as a client would send it."""

import threading

from fewstep.serve.parsing import check_max
from fewstep.serve.schema import TaskRequest, TaskResponse
from fewstep.serve.served_model import Sampler, ServedModel


class TaskDrawer:
    """Draws tasks; what a model's sampler loads and compiles is kept."""

    def __init__(self) -> None:
        self._samplers: dict[tuple[str, str], Sampler] = {}
        self._lock = threading.Lock()

    def draw(self, model: ServedModel, request: TaskRequest) -> TaskResponse:
        """Draws a task of the model's kind; blocks."""
        source, shots = model.kind.task_source(model), request.shots or model.experiment.shots
        check_max("points", shots * (model.ways or 1), model.limits.points)
        return self._sampler(model, source)(request.seed, shots)

    def _sampler(self, model: ServedModel, source: str) -> Sampler:
        with self._lock:  # so that two requests at once do not load twice
            if (model.name, source) not in self._samplers:
                self._samplers[model.name, source] = model.kind.make_sampler(model, source)
            return self._samplers[model.name, source]
