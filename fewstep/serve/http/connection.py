"""One connection: bounds what a client may send before its request is known, which is before any token is checked.

The parser (httptools) buffers everything until a header, a line or a trailer ends, and has no limit of its own. So it
is fed only so many bytes without an end of something.
"""

import http
from collections import deque
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from fewstep.serve.errors import Refusal
from fewstep.serve.http.asgi import error_body
from fewstep.serve.http.clients import client_of

if TYPE_CHECKING:
    from fewstep.serve.http.app import Service

_HEAD = 1 << 16  # bytes of a request's line and headers, together; also of the trailers of a body
_PIPELINE = 16  # requests that wait on a connection behind the one that is being answered
_LONG_HEAD = Refusal(
    431, "head_too_large", f"The headers of the request exceed {_HEAD} bytes. Send fewer or shorter ones."
)
_LONG_LINE = Refusal(
    414, "line_too_long", f"The address of the request exceeds {_HEAD // 2} bytes. Send data in the body."
)
_LONG_PIPELINE = Refusal(
    429, "too_many_pipelined",
    f"More than {_PIPELINE} requests are pipelined on this connection. Wait for answers before you send more.",
    [(b"retry-after", b"1")],
)  # fmt: skip


class _Closing(Exception):
    """Ends the parser's work on a connection that is being closed."""


class Connection(HttpToolsProtocol):
    """uvicorn's connection, bounded: in bytes without an end, in requests one behind the other, and in number."""

    def connection_made(self, transport: Any) -> None:  # uvloop's is not an asyncio.Transport
        """Accepts a connection, or refuses it where its client has too many."""
        self._service: Service = self.config.app  # type: ignore[assignment]
        self._room, self.url = _HEAD, b""
        self._cycles: deque[RequestResponseCycle] = deque()
        super().connection_made(transport)
        self._name = client_of(self.client)
        refusal = self._service.connections.enter(self._name)
        if refusal is not None:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets a connection. uvicorn itself notifies only the last of several requests."""
        self._service.connections.leave(self._name)
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feeds the parser as many bytes as there is room for; whatever ends meanwhile makes room again."""
        if len(data) < self._room:  # as it is nearly always
            self._room -= len(data)
            super().data_received(data)
            return
        while data and not self.transport.is_closing():
            room = self._room
            piece, data = data[:room], data[room:]
            self._room = room - len(piece)
            super().data_received(piece)
            if not self._room and not self.transport.is_closing():
                self._refuse(_LONG_LINE if len(self.url) > _HEAD // 2 else _LONG_HEAD)

    def on_headers_complete(self) -> None:
        """A head has ended."""
        self._room = _HEAD
        if len(self._cycles) > _PIPELINE:
            self._refuse(_LONG_PIPELINE)
            raise _Closing
        super().on_headers_complete()
        self._cycles.append(self.cycle)

    def on_response_complete(self) -> None:
        """The first of the requests is answered."""
        self._cycles.popleft()
        super().on_response_complete()

    def on_body(self, body: bytes) -> None:
        """Some of a body has come; how much it may be is up to the route."""
        self._room = _HEAD
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP."""
        if not self.transport.is_closing():
            self._refuse(Refusal(400, "bad_http", f"{msg} Send HTTP/1.1."))

    def _refuse(self, refusal: Refusal) -> None:
        """Writes the refusal, unless an answer is half written already, and closes."""
        self._service.note_refusal(self.client, refusal)
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = error_body(refusal)
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)),
                       (b"connection", b"close"), *refusal.headers]  # fmt: skip
            line = f"HTTP/1.1 {refusal.status} {http.HTTPStatus(refusal.status).phrase}\r\n".encode()
            self.transport.write(line + b"".join(b"%s: %s\r\n" % pair for pair in headers) + b"\r\n" + body)
        self.transport.close()
