"""HTTP at its barest: reading a body within bounds, and writing an answer."""

from starlette.types import Message, Receive, Scope, Send

from fewstep.serve.errors import Headers, Refusal
from fewstep.serve.schema import ErrorInfo, ErrorResponse, encode

_JSON = (b"content-type", b"application/json")
_PLAIN: Headers = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_SAFE: Headers = (
    *_PLAIN,
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'"),
)


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The body, refused before it is read if its declared length is over the limit, else while it is read."""
    length = header(scope, b"content-length")
    if length is not None and int(length) > limit:
        raise _too_long(int(length), limit)
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    if size > limit:
        raise _too_long(size, limit)
    return b"".join(parts)


def header(scope: Scope, name: bytes) -> bytes | None:
    """A header of the request; names are in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return value
    return None


async def reply(send: Send, status: int, body: bytes, headers: Headers = (_JSON,), more: Headers = ()) -> None:
    """Writes an answer of data. Each header costs time, so those that only pages need are left out."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length, *_PLAIN, *more]})
    await send({"type": "http.response.body", "body": body})


async def refuse(send: Send, refusal: Refusal, more: Headers = ()) -> None:
    """Writes a refusal."""
    await reply(send, refusal.status, error_body(refusal), more=[*refusal.headers, *more])


def error_body(refusal: Refusal) -> bytes:
    """The body of a refusal."""
    return encode(ErrorResponse(ErrorInfo(refusal.code, refusal.message)))


def watch(send: Send, status: list[int], more: Headers) -> Send:
    """A `send` that notes the status of the answer, and adds the headers that every answer carries."""

    async def note(message: Message) -> None:
        if message["type"] == "http.response.start":
            status[0] = message["status"]
            present = {name for name, _ in message["headers"]}
            safe = [pair for pair in _SAFE if pair[0] not in present]
            message["headers"] = [*message["headers"], *safe, *more]
        await send(message)

    return note


def check_headers(scope: Scope, limit: int) -> None:
    """Refuses too many headers."""
    if len(scope["headers"]) > limit:
        message = f"The request has {len(scope['headers'])} headers and the limit is {limit}. Send fewer."
        raise Refusal(431, "too_many_headers", message, [(b"connection", b"close")])


def check_json(scope: Scope) -> None:
    """Refuses a body that is not declared as JSON, or is compressed. A browser sends declared JSON to another origin
    only after asking."""
    media = header(scope, b"content-type") or b""
    if not media.lower().startswith(b"application/json"):
        fact = f"The body is {_quote(media)}" if media else "The body has no content-type"
        raise Refusal(415, "not_json", f"{fact}. Send JSON, and the header  content-type: application/json.")
    encoding = header(scope, b"content-encoding")
    if encoding and encoding.lower() != b"identity":
        fact = f"The body has the content-encoding {_quote(encoding)}, and the service decodes none"
        raise Refusal(415, "encoded_body", f"{fact}. Send the JSON as it is.")


def _quote(value: bytes) -> str:
    return repr(value[:80].decode(errors="replace"))


def _too_long(size: int, limit: int) -> Refusal:
    message = f"The body has {size} bytes or more and the limit is {limit}. Send fewer points, or in several requests."
    return Refusal(413, "body_too_large", message, [(b"connection", b"close")])
