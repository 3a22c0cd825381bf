"""What the service does for a request, once it is admitted: adapt, predict, forget, draw a task."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np

from fewstep.serve._adapters import Adapters
from fewstep.serve._draw import Drawer
from fewstep.serve._engine import Aside, Engine
from fewstep.serve._limits import bucket
from fewstep.serve._models import Served
from fewstep.serve._reading import Question, most_values, read_question, read_task
from fewstep.serve._refusal import Refusal, invalid
from fewstep.serve._schema import Adapt, Adapted, Detail, DrawTask, Layer, Predict, Predicted
from fewstep.serve._units import moving_layers
from fewstep.serve._wire import encode
from fewstep.serve._work import Answer, Left
from fewstep.tables._interval import Calibration

_LEVEL = 0.9  # of the intervals of a table's predictions
_SMALL = 1 << 14  # bytes: a body of so few is harmless whatever it unfolds into
_DRAWN = 1 << 20  # to draw a task takes as long at first as to read so many bytes of images, since it compiles
T = TypeVar("T")
_ADAPT, _PREDICT, _DRAW = msgspec.json.Decoder(Adapt), msgspec.json.Decoder(Predict), msgspec.json.Decoder(DrawTask)


class Endpoints:
    """The work behind the routes; each takes a body and gives the answer's bytes."""

    def __init__(self, engine: Engine, adapters: Adapters, seconds: float):
        self._engine, self._adapters, self._seconds = engine, adapters, seconds
        self._drawer = Drawer()

    async def adapt(self, client: str, served: Served, body: bytes) -> bytes:
        """Learns a task and keeps what it leaves behind."""
        began = time.perf_counter()
        task = await self._read(client, served, read_task, _ADAPT, body)
        left = await self._engine.learn(client, served, task)
        name = self._adapters.keep(served.name, left)
        classes = None if task.classes is None else list(task.classes)
        told = Adapted(name, self._seconds, left.after, _since(began), _before(served, left), classes)
        told.detail, told.warnings = _detail(served, left), list(left.outside.notes) or None
        return encode(told)

    async def predict(self, client: str, served: Served, body: bytes) -> bytes:
        """Predicts with an adapter, or learns a task first."""
        began = time.perf_counter()
        asked = await self._read(client, served, read_question, _PREDICT, body)
        left = await self._learned(client, served, asked)
        made = await self._engine.answer(client, served, left, asked.x)
        told = _predicted(served, asked, left, made)
        told.milliseconds = _since(began)
        return encode(told)

    async def draw(self, client: str, served: Served, body: bytes) -> bytes:
        """Draws a random task."""
        asked = _decoded(_DRAW, served, body)
        draw = partial(self._drawer.draw, served, asked)
        return encode(await self._engine.aside(client, Aside(served.name, "draw", _DRAWN), draw))

    async def _learned(self, client: str, served: Served, asked: Question) -> Left:
        if asked.task is not None:
            return await self._engine.learn(client, served, asked.task)
        assert asked.adapter is not None
        left = self._adapters.find(served.name, asked.adapter)
        if asked.detail and left.moved is None:
            raise invalid("no_detail", 'The adapter was made without "detail". Ask for it in /adapt.')
        return left

    async def _read(
        self, client: str, served: Served, read: Callable[[Served, Any], T], decoder: msgspec.json.Decoder[Any],
        body: bytes,
    ) -> T:  # fmt: skip
        """Reads rows of numbers at once. Images are read aside, since that takes a while, and a few at a time:
        decompressed they are many times as large as the body."""
        if served.kind != "images":
            return read(served, _decoded(decoder, served, body))
        work = Aside(served.name, "read", bucket(len(body), ()))
        return await self._engine.aside(client, work, lambda: read(served, _decoded(decoder, served, body)))


def _predicted(served: Served, asked: Question, left: Left, made: Answer) -> Predicted:
    told = Predicted(made.mean.tolist(), left.after, 0.0, _before(served, left))
    told.warnings = [*left.outside.notes, *asked.outside.notes] or None
    if served.ensemble is not None and served.classes:
        _at_its_temperature(told, served, left, made)
    if left.classes is not None:
        told.classes, told.probabilities = list(left.classes), told.y
    if served.ensemble is not None and not served.classes:
        _in_its_unit(told, served, asked, left, made)
    elif left.samples > 1 and served.ensemble is None:
        told.low, told.high = made.low.tolist(), made.high.tolist()
    told.detail = _detail(served, left) if asked.detail else None
    return told


def _in_its_unit(told: Predicted, served: Served, asked: Question, left: Left, made: Answer) -> None:
    """The predictions of a table's model in the unit of its target, with an interval if it is calibrated for what was
    asked."""
    assert served.ensemble is not None
    target, known = served.ensemble.schema.target, _calibration(served, left)
    y = target.decode(made.mean.astype(np.float64))
    told.y = y.tolist()
    if known is not None:
        inside = known.half(made.spread.astype(np.float64), left.points, _LEVEL)
        half = (inside + asked.outside.distance[:, None] + left.outside.distance.max()) * target.scale
        told.low, told.high = (y - half).tolist(), (y + half).tolist()


def _at_its_temperature(told: Predicted, served: Served, left: Left, made: Answer) -> None:
    """The probabilities of a table's model, calibrated if it is for what was asked."""
    if (known := _calibration(served, left)) is not None:
        told.y = known.probabilities(made.mean.astype(np.float64), left.points).tolist()
    elif left.samples > 1:
        told.low, told.high = made.low.tolist(), made.high.tolist()


def _calibration(served: Served, left: Left) -> Calibration | None:
    """The calibration of a table's model, if it is that of the training's steps, at their size, and its samples."""
    assert served.ensemble is not None
    asked = (left.steps, left.pace, left.samples)
    return served.ensemble.calibration if asked == (served.ensemble.steps, 1.0, served.samples) else None


def _before(served: Served, left: Left) -> float | msgspec.UnsetType:
    return left.before if served.model.built.steps else msgspec.UNSET


def _detail(served: Served, left: Left) -> Detail | None:
    if left.moved is None or left.units is None:
        return None
    layers, begin, told = moving_layers(served.model), 0, []
    for number, layer in enumerate(layers):
        mask = left.units[begin : begin + layer.width].tolist() if served.masked else None
        told.append(Layer(layer.path, float(left.moved[number]), mask))
        begin += layer.width
    return Detail(told)


def _decoded(decoder: msgspec.json.Decoder[T], served: Served, body: bytes) -> T:
    if len(body) > _SMALL and (values := body.count(b",") + body.count(b"[")) > (most := most_values(served)):
        told = f"The body has about {values} values, and the limits of the model allow {most}. Send fewer, or in parts."
        raise invalid("too_many_values", told)
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid("bad_request", f"The body does not have the form that is asked for: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, "bad_json", f"The body is not JSON: {error}. Send one JSON object in UTF-8.") from None


def _since(began: float) -> float:
    return round(1000 * (time.perf_counter() - began), 3)
