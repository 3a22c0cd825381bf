"""A small client: the service's routes as functions of the same names. Needs nothing beside Python."""

import base64
import http.client
import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

_SUPPORT = ("x", "y", "images", "labels", "columns")
_QUERY = ("x", "images", "columns")
_Request = tuple[str, str, str | None, dict[str, str]]  # method, path, body, headers


class ServiceError(Exception):
    """What the service refused: `status`, `code` and its message."""

    def __init__(self, status: int, code: str, message: str):
        super().__init__(message)
        self.status, self.code = status, code


class Client:
    """Talks to a service that `fewstep serve` started; one connection, kept open. For one thread at a time.

    Example::

        client = Client("http://127.0.0.1:8000")
        adapted = client.adapt("sine", x=[[0.5], [1.0]], y=[[1.0], [1.5]])
        client.predict("sine", adapter=adapted["adapter"], x=[[0.7]])["y"]
    """

    def __init__(self, url: str = "http://127.0.0.1:8000", *, token: str | None = None, seconds: float = 30.0):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the address of a service. Give one such as http://127.0.0.1:8000.")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=seconds)
        self._head = {"authorization": f"Bearer {token}"} if token else {}
        self._base = parts.path.rstrip("/")

    def models(self) -> list[dict[str, Any]]:
        """All models."""
        return self._ask("GET", "/v1/models")["models"]

    def model(self, name: str) -> dict[str, Any]:
        """The description of a model."""
        return self._ask("GET", f"/v1/models/{_part(name)}")

    def adapt(self, name: str, **fields: object) -> dict[str, Any]:
        """Learns a task: `x` and `y`, or `x` as texts and `labels`, or `images` (files or PNG bytes) and `labels`, or
        `columns` (a data frame of pandas or polars, or a dict of columns); `steps`, `pace`, `seed`, `samples`, `detail`
        as they are."""
        return self._ask("POST", f"/v1/models/{_part(name)}/adapt", _with_support(fields))

    def predict(self, name: str, *, query: Mapping[str, object] | None = None, **fields: object) -> dict[str, Any]:
        """Predicts at `query` with an `adapter`, or with a support set as in `adapt`. With an adapter, `x`,
        `images` or `columns` may stand for the query itself."""
        if query is None:
            query = {key: fields.pop(key) for key in _QUERY if key in fields}
        body = fields if "adapter" in fields else _with_support(fields)
        return self._ask("POST", f"/v1/models/{_part(name)}/predict", {**body, "query": _prepare(query)})

    def forget(self, name: str, adapter: str) -> None:
        """Drops an adapter."""
        self._ask("DELETE", f"/v1/models/{_part(name)}/adapters/{_part(adapter)}")

    def task(self, name: str, *, seed: int = 0, shots: int | None = None) -> dict[str, Any]:
        """A random task that training never saw."""
        return self._ask("POST", f"/v1/models/{_part(name)}/task", {"seed": seed, "shots": shots})

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        content = None if body is None else _encode(body)
        head = self._head | ({"content-type": "application/json"} if content else {})
        try:
            answer = self._answer((method, self._base + path, content, head))
            raw = answer.read()
        except ConnectionRefusedError as error:
            host, port = self._connection.host, self._connection.port
            raise ConnectionRefusedError(error.errno, f"No service answers at {host}:{port}. Start it.") from None
        except BaseException:  # such as a timeout: what arrives on this connection later answers no request any more
            self._connection.close()
            raise
        return _content(answer, raw)

    def _answer(self, request: _Request) -> http.client.HTTPResponse:
        """Sends a request, once more if the connection was idle for long and has been closed at the other end."""
        try:
            return self._answer_once(request)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self._connection.close()
            return self._answer_once(request)

    def _answer_once(self, request: _Request) -> http.client.HTTPResponse:
        try:
            self._connection.request(*request)
        except (ConnectionResetError, BrokenPipeError):
            if self._connection.sock is None:
                raise
            # A body that is too large is refused before it is read: then the answer is there already.
        return self._connection.getresponse()


def _content(answer: http.client.HTTPResponse, raw: bytes) -> Any:
    """The content of an answer. Raises `ServiceError` if it is a refusal, or not from this service."""
    try:
        content = json.loads(raw) if raw else None
    except ValueError:
        text = raw[:200].decode(errors="replace")
        message = f"The answer {answer.status} is not JSON: {text!r}. Is this the address of a fewstep service?"
        raise ServiceError(answer.status, "not_json", message) from None
    if answer.status < 400:
        return content
    error = content.get("error") if isinstance(content, dict) else None
    error = error if isinstance(error, dict) else {}
    raise ServiceError(answer.status, error.get("code", ""), error.get("message", answer.reason))


def _with_support(fields: Mapping[str, object]) -> Mapping[str, object]:
    support = {key: fields[key] for key in _SUPPORT if key in fields}
    rest = {key: value for key, value in fields.items() if key not in _SUPPORT}
    return {**rest, "support": _prepare(support)} if support else rest


def _prepare(part: Mapping[str, object]) -> Mapping[str, object]:
    """A support set or query as it is sent."""
    images, columns = part.get("images"), part.get("columns")
    if isinstance(images, Iterable):
        part = {**part, "images": [_image(image) for image in images]}
    if not isinstance(columns, Mapping) and hasattr(columns, "columns") and hasattr(columns, "__getitem__"):
        columns = {str(name): columns[name] for name in columns.columns}  # a data frame, of whichever library
    if isinstance(columns, Mapping):
        part = {**part, "columns": {name: _cells(column) for name, column in columns.items()}}
    return part


def _cells(column: object) -> object:
    """A column's cells."""
    for to_list in ("tolist", "to_list"):
        if hasattr(column, to_list):
            column = getattr(column, to_list)()
    return list(map(_cell, column)) if isinstance(column, list | tuple) else column


def _cell(cell: object) -> object:
    """A cell as JSON has it: null for what is missing, as NaN, NaT and NA are in frames; dates as ISO; lengths of time
    as days; true as 1."""
    if type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell):
        return None
    if isinstance(cell, date):
        return cell.isoformat()
    if isinstance(cell, timedelta):
        return cell.total_seconds() / 86_400
    if isinstance(cell, Decimal):
        return float(cell)
    return int(cell) if isinstance(cell, bool) else cell


def _encode(body: object) -> str:
    try:
        return json.dumps(body, default=_plain, allow_nan=False)
    except ValueError:
        place = _not_finite(body, "")
        if place is None:
            raise
    raise ValueError(
        f"{place}, and JSON has only finite numbers. Nothing was sent. Fill the number in, or leave out its whole row, "
        'in x and y alike. Only the cells of "columns" may be missing: send None or NaN there.'
    )


def _not_finite(value: object, place: str) -> str | None:
    """Where the first number is that is NaN or infinite, and what it is."""
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{place} is {float(value)}"
    if hasattr(value, "tolist"):
        return _not_finite(value.tolist(), place)
    parts: Iterable[tuple[str, object]] = ()
    if isinstance(value, dict):
        inside = place.endswith(".columns")
        parts = (
            (f"{place}[{name!r}]" if inside else f"{place}.{name}".lstrip("."), each) for name, each in value.items()
        )
    elif isinstance(value, list | tuple):
        parts = ((f"{place}[{number}]", each) for number, each in enumerate(value))
    return next((text for name, each in parts if (text := _not_finite(each, name))), None)


def _image(image: object) -> object:
    """A PNG file, its bytes, or base64 as it is."""
    if isinstance(image, Path):
        image = image.read_bytes()
    return base64.b64encode(image).decode() if isinstance(image, bytes) else image


def _plain(value: object) -> object:
    """Arrays as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"A {type(value).__name__} cannot be sent. Send numbers, text or lists of them.")


def _part(name: str) -> str:
    return quote(name, safe="")
