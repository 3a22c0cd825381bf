"""Who may use the service: by the host name it asks for, the web page that asks, and its token.

Any web page can make a browser send requests to an address that only this machine reaches. It cannot choose two things
that the browser sends: the name that was asked for (Host), even when that name is made to point here, and the page that
asks (Origin).
"""

import hmac
import ipaddress
from collections.abc import Sequence
from typing import Literal

from starlette.types import Scope

from fewstep.serve.errors import Headers, Refusal
from fewstep.serve.http.asgi import header

Public = Literal["metrics", "docs"]
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_OPEN = {"/", "/healthz", "/readyz", "/docs.css"}  # the front page asks for the token itself
_PUBLIC: dict[Public, set[str]] = {"metrics": {"/metrics"}, "docs": {"/docs", "/openapi.json"}}


class Access:
    """The checks that come before anything of a request is read."""

    def __init__(
        self, *, token: str | None = None, cors: Sequence[str] = (), hosts: Sequence[str] = (),
        public: Sequence[Public] = (),
    ):  # fmt: skip
        self.has_token = token is not None
        self._token = (token or "").encode()
        self._open = _OPEN.union(*(_PUBLIC[name] for name in public))
        self._origins = {origin.encode() for origin in cors}
        self._names = tuple(hosts)
        self._hosts: dict[bytes, str] | None = None
        self.bind("127.0.0.1")

    @property
    def allows_cors(self) -> bool:
        """Whether pages of other origins may ask."""
        return bool(self._origins)

    def bind(self, address: str) -> None:
        """Sets where the service listens. On an address that others reach, any name will do unless some were given:
        which names lead there is not known here."""
        if not is_loopback(address) and not self._names:
            self._hosts = None
            return
        own = f"[{address}]" if ":" in address else address
        names = dict.fromkeys([*_LOOPBACK, own, *self._names])
        self._hosts = {name.lower().encode(): name for name in names}

    def check(self, scope: Scope) -> None:
        """Refuses a request that is for another host, or that a page of another origin sends to change something."""
        host = header(scope, b"host") or b""
        if self._hosts is not None and _without_port(host) not in self._hosts:
            raise self._wrong_host(host)
        if scope["method"] not in ("POST", "DELETE"):
            return
        origin = header(scope, b"origin")
        if origin is not None and origin.partition(b"://")[2] != host and origin not in self._origins:
            raise _wrong_origin(origin, host)

    def needs_token(self, path: str) -> bool:
        """Whether a path is only for clients with the token."""
        return self.has_token and path not in self._open and not path.startswith("/static/")

    def check_token(self, scope: Scope) -> None:
        """Refuses requests without the token."""
        if not self.needs_token(scope["path"]):
            return
        scheme, _, token = (header(scope, b"authorization") or b"").partition(b" ")
        matches = hmac.compare_digest(token.strip(), self._token)  # takes the same time for any token
        if not matches or scheme.lower() != b"bearer":
            message = "This service needs a token. Send the header  Authorization: Bearer TOKEN."
            raise Refusal(401, "no_token", message, [(b"www-authenticate", b"Bearer")])

    def origin_headers(self, scope: Scope) -> Headers:
        """The headers by which a browser knows that a page of another origin may read the answer."""
        origin = header(scope, b"origin")
        if origin is None or origin not in self._origins:
            return ()
        return (
            (b"access-control-allow-origin", origin),
            (b"vary", b"origin"),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", b"authorization, content-type"),
        )

    def _wrong_host(self, host: bytes) -> Refusal:
        name, names = _text(_without_port(host)), ", ".join((self._hosts or {}).values())
        return Refusal(
            421, "wrong_host",
            f"The request is for the host {name!r}, and this service answers only for {names}: else any web page could "
            f"ask it under a name of its own. If that name is yours, start it with  fewstep serve --allow-host NAME.",
        )  # fmt: skip


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def _without_port(host: bytes) -> bytes:
    name, colon, port = host.rpartition(b":")
    return (name if colon and port.isdigit() else host).lower()


def _wrong_origin(origin: bytes, host: bytes) -> Refusal:
    return Refusal(
        403, "wrong_origin",
        f"A web page of {_text(origin)!r} asks, and this service is {_text(host)!r}. If that page may use it, start it "
        "with  fewstep serve --cors ORIGIN.",
    )  # fmt: skip


def _text(value: bytes) -> str:
    return value[:80].decode(errors="replace")
