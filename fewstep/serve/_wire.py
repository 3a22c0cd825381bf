"""HTTP at its barest: reading a body within bounds, and writing an answer."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from fewstep.serve._refusal import Headers, Refusal
from fewstep.serve._schema import Failure, Trouble

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_JSON = (b"content-type", b"application/json")
_PLAIN: Headers = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_SAFE: Headers = (
    *_PLAIN,
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'"),
)
encode = msgspec.json.Encoder().encode


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The body, refused before it is read if it says that it is too long, and while it is read if it does not."""
    said = header(scope, b"content-length")
    if said is not None and int(said) > most:
        raise _too_long(int(said), most)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ConnectionResetError
    body = message.get("body", b"")
    if not message.get("more_body") and len(body) <= most:
        return body
    return await _rest(receive, message, most)


async def _rest(receive: Receive, first: MutableMapping[str, Any], most: int) -> bytes:
    parts, more = [first.get("body", b"")], first.get("more_body", False)
    size = len(parts[0])
    while more and size <= most:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    if size > most:
        raise _too_long(size, most)
    return b"".join(parts)


def header(scope: Scope, name: bytes) -> bytes | None:
    """A header of the request; names are in small letters."""
    for key, value in scope["headers"]:
        if key == name:
            return value
    return None


async def reply(send: Send, status: int, body: bytes, headers: Headers = (_JSON,), more: Headers = ()) -> None:
    """Writes an answer of data. Each header costs time; those for pages are left to pages."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length, *_PLAIN, *more]})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, refusal: Refusal, more: Headers = ()) -> None:
    """Writes why not."""
    await reply(send, refusal.status, failure(refusal), more=[*refusal.headers, *more])


def failure(refusal: Refusal) -> bytes:
    """The body of a refusal."""
    return encode(Failure(Trouble(refusal.code, refusal.message)))


def safe_headers() -> Headers:
    """What every answer carries for the sake of browsers."""
    return _SAFE


def _too_long(size: int, most: int) -> Refusal:
    told = f"The body has {size} bytes or more and the limit is {most}. Send fewer points, or in several requests."
    return Refusal(413, "body_too_large", told, [(b"connection", b"close")])
