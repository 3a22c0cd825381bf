"""What the service does for a request once it is admitted: adapt, predict, draw a task."""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np

from fewstep.models import calibrated
from fewstep.problems import Answer
from fewstep.serve import schema
from fewstep.serve.adapter_store import AdapterStore
from fewstep.serve.batching.buckets import bucket
from fewstep.serve.batching.scheduler import Job, Scheduler
from fewstep.serve.errors import Refusal, invalid
from fewstep.serve.parsing import PredictTask, max_values, parse_predict, parse_task
from fewstep.serve.random_task import TaskDrawer
from fewstep.serve.schema import Detail, Layer, PredictResponse, encode
from fewstep.serve.served_model import ServedModel
from fewstep.serve.task import Adaptation

_SMALL = 1 << 14  # bytes: a body of so few is harmless whatever it decodes into
_ENCODE_SIZE = 1 << 16  # a text passes through an encoder, which takes as long as to read so many bytes of images
_DRAW_SIZE = 1 << 20  # to draw a task takes at first as long as to read so many bytes of images, since it compiles
T = TypeVar("T")
Request = TypeVar("Request", bound=msgspec.Struct)
_ADAPT = msgspec.json.Decoder(schema.AdaptRequest)
_PREDICT = msgspec.json.Decoder(schema.PredictRequest)
_TASK = msgspec.json.Decoder(schema.TaskRequest)


class Endpoints:
    """The work behind the routes; each takes a body and returns the bytes of the answer."""

    def __init__(self, scheduler: Scheduler, adapters: AdapterStore, seconds: float):
        self._scheduler, self._adapters, self._seconds = scheduler, adapters, seconds
        self._drawer = TaskDrawer()

    async def adapt(self, client: str, model: ServedModel, body: bytes) -> bytes:
        """Learns a task and keeps the adapted parameters."""
        start = time.perf_counter()
        task = await self._parse(client, model, parse_task, _ADAPT, body)
        adaptation = await self._scheduler.learn(client, model, task)
        name = self._adapters.add(model.name, adaptation)
        response = schema.AdaptResponse(
            name, self._seconds, adaptation.after, _milliseconds(start), _loss_before(model, adaptation),
            list(adaptation.classes) or None, _detail(model, adaptation), list(adaptation.notes) or None,
        )  # fmt: skip
        return encode(response)

    async def predict(self, client: str, model: ServedModel, body: bytes) -> bytes:
        """Predicts with an adapter, or learns a task first."""
        start = time.perf_counter()
        request = await self._parse(client, model, parse_predict, _PREDICT, body)
        adaptation = await self._adaptation(client, model, request)
        answer = await self._scheduler.answer(client, model, adaptation, request.query.x)
        response = _prediction(model, request, adaptation, answer)
        response.milliseconds = _milliseconds(start)
        return encode(response)

    async def task(self, client: str, model: ServedModel, body: bytes) -> bytes:
        """Draws a random task."""
        draw = partial(self._drawer.draw, model, _decode(_TASK, model, body))
        return encode(await self._scheduler.run(client, Job(model.name, "draw", _DRAW_SIZE), draw))

    async def _adaptation(self, client: str, model: ServedModel, request: PredictTask) -> Adaptation:
        if request.task is not None:
            return await self._scheduler.learn(client, model, request.task)
        assert request.adapter is not None
        adaptation = self._adapters.find(model.name, request.adapter)
        if request.detail and adaptation.change is None:
            raise invalid("no_detail", 'The adapter was made without "detail". Ask for it in /adapt.')
        return adaptation

    async def _parse(
        self, client: str, model: ServedModel, parse: Callable[[ServedModel, Request], T],
        decoder: msgspec.json.Decoder[Request], body: bytes,
    ) -> T:  # fmt: skip
        """Parses rows of numbers at once. Images and what an encoder reads are parsed on a worker thread, since that
        takes a while, and a few at a time: decompressed they are many times as large as the body."""
        if not (model.kind.heavy or model.kind.prepare is not None):
            return parse(model, _decode(decoder, model, body))
        job = Job(model.name, "read", bucket(max(len(body), 0 if model.kind.prepare is None else _ENCODE_SIZE)))
        return await self._scheduler.run(client, job, lambda: parse(model, _decode(decoder, model, body)))


def _prediction(model: ServedModel, request: PredictTask, adaptation: Adaptation, answer: Answer) -> PredictResponse:
    y, low, high = _in_units(model, request, adaptation, answer)
    response = PredictResponse(y.tolist(), adaptation.after, 0.0, _loss_before(model, adaptation))
    if low is not None and high is not None:
        response.low, response.high = low.tolist(), high.tolist()
    if adaptation.classes:
        response.classes, response.probabilities = list(adaptation.classes), response.y
        response.unknown = _unknown(model, adaptation, answer)
    response.warnings = [*adaptation.notes, *request.query.notes] or None
    response.detail = _detail(model, adaptation) if request.detail else None
    return response


def _unknown(model: ServedModel, adaptation: Adaptation, answer: Answer) -> list[bool] | None:
    """Which rows fit none of the classes, by a threshold that holds for the steps and the pace of the training."""
    rejection, settings = model.model.rejection, adaptation.settings
    if rejection is None or (settings.steps, settings.pace) != (model.model.steps, 1.0):
        return None
    shots = adaptation.points / max(1, adaptation.ways or 1)
    return (answer.fit < rejection.threshold(shots)).tolist()


def _in_units(
    model: ServedModel, request: PredictTask, adaptation: Adaptation, answer: Answer
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The mean in the client's units, and the ends of an interval, calibrated for these settings, or of a band: the
    smallest and the largest of several samples of the masks."""
    problem, units = model.problem, model.kind.units
    if model.is_calibrated_for(adaptation.settings):
        distance = request.query.distance + adaptation.distance
        answer = calibrated(
            model.model, answer, adaptation.points, distance=distance, residual=adaptation.residual
        )  # fmt: skip
        ends = not problem.classes
    else:
        # Where intervals can be calibrated, a band would be mistaken for one.
        ends = adaptation.settings.samples > 1 and (problem.classes or problem.held_out is None)
    y = units(problem, answer.mean)
    return (y, units(problem, answer.low), units(problem, answer.high)) if ends else (y, None, None)


def _loss_before(model: ServedModel, adaptation: Adaptation) -> float | msgspec.UnsetType:
    return adaptation.before if model.model.built.steps else msgspec.UNSET


def _detail(model: ServedModel, adaptation: Adaptation) -> Detail | None:
    if adaptation.change is None:
        return None
    begin, layers = 0, []
    for layer, moved in zip(model.layers, adaptation.change.moved.tolist(), strict=True):
        mask = adaptation.change.units[begin : begin + layer.width].tolist() if model.masked else None
        layers.append(Layer(layer.path, moved, mask))
        begin += layer.width
    return Detail(layers)


def _decode(decoder: msgspec.json.Decoder[T], model: ServedModel, body: bytes) -> T:
    if len(body) > _SMALL and (values := body.count(b",") + body.count(b"[")) > (limit := max_values(model)):
        fact = f"The body has about {values} values, and the limits of the model allow {limit}."
        raise invalid("too_many_values", f"{fact} Send fewer, or in parts.")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid("bad_request", f"The body does not have the required form: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "bad_json", f"The body is not JSON: {error}. Send one JSON object in UTF-8.") from None


def _milliseconds(start: float) -> float:
    return round(1000 * (time.perf_counter() - start), 3)
