"""The service as an ASGI application: who may come in, which route does what, and how it ends."""

import asyncio
import gc
import time
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from fewstep.serve._adapters import Adapters
from fewstep.serve._clients import Connections, client_of
from fewstep.serve._endpoints import Endpoints
from fewstep.serve._engine import Engine
from fewstep.serve._gate import Gate, Public
from fewstep.serve._limits import Limits
from fewstep.serve._log import Log
from fewstep.serve._metrics import Metrics, resident_bytes
from fewstep.serve._models import Served
from fewstep.serve._refusal import Headers, Refusal, overloaded, slow_body, too_late, unavailable
from fewstep.serve._routes import route_name, routes
from fewstep.serve._wire import Receive, Scope, Send, header, read_body, refuse, reply, safe_headers

_TICK = 0.25  # seconds between looks at what is no longer needed
Hot = Callable[[str, Served, bytes], Awaitable[bytes]]


class Service:
    """All of it. Requests to adapt and to predict take a short way; the rest goes by Starlette's routes."""

    def __init__(
        self, models: dict[str, Served], limits: Limits, *, wait: float = 0.002, most: int = 64,
        token: str | None = None, cors: tuple[str, ...] = (), hosts: tuple[str, ...] = (),
        public: tuple[Public, ...] = (), runs: Path | None = None, log: Log | None = None,
    ):  # fmt: skip
        self.models, self.limits, self.runs, self.log = models, limits, runs, log or Log()
        self.metrics = Metrics()
        self.engine = Engine(models, wait=wait, most=most, backlog=limits.backlog, observe=self.metrics.called)
        self.adapters, self.connections = Adapters(limits), Connections(limits)
        self.endpoints = Endpoints(self.engine, self.adapters, limits.adapter_seconds)
        self.ready = self.warm = self.stopping = False
        self.failed: str | None = None
        self.busy = 0
        self.gate = Gate(token=token, cors=cors, hosts=hosts, public=public)
        self._hot = self._short_ways()
        self._router = Router(routes(self))
        self._measure()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, whatever happens."""
        if scope["type"] == "lifespan":
            return await self._life(receive, send)
        if scope["type"] != "http":
            return None
        began, told, code = time.perf_counter(), [0], None
        method, path = scope["method"], scope["path"]
        extra = self.gate.allowed_origin(scope) if self.gate.answers_others else ()
        hot = self._hot.get(path) if method == "POST" else None
        try:
            _check_headers(scope, self.limits.headers)
            self.gate.check(scope)
            if hot is not None:
                told[0] = 200
                await reply(send, 200, await self._quick(scope, receive, *hot), more=extra)
            else:
                await self._routed(scope, receive, _watched(send, told, extra))
        except Refusal as refusal:
            told[0], code = refusal.status, refusal.code
            await refuse(send, refusal, extra)
        except (ConnectionResetError, asyncio.CancelledError):
            told[0], code = 499, "gone"  # the client has left: nobody reads an answer
        except Exception as error:
            told[0], code = 500, "internal_error"
            self.log.event("error", path=path, error=repr(error), traceback=traceback.format_exc())
            await refuse(send, Refusal(500, code, "Something went wrong in the service. Its log says what."), extra)
        spent = time.perf_counter() - began
        self.metrics.answered(hot[0] if hot else route_name(path), told[0], spent)
        self.log.request(method, path, told[0], spent, scope.get("client"), code)
        return None

    def note_refusal(self, client: Any, refusal: Refusal) -> None:
        """Counts and logs what was refused before it was a request."""
        self.metrics.answered("other", refusal.status, 0.0)
        self.log.request("", "", refusal.status, 0.0, client, refusal.code)

    async def _quick(self, scope: Scope, receive: Receive, name: str, work: Hot, served: Served) -> bytes:
        """Admits a request that computes, reads it and does it, all within its time."""
        self.gate.check_token(scope)
        self._check_ready()
        _check_json(scope)
        _check_encoding(scope)
        if self.busy >= self.limits.requests:
            raise overloaded(f"{self.busy} requests are being answered, which is the limit. Wait a moment, and retry.")
        self.busy += 1
        body = None
        try:
            async with asyncio.timeout(self.limits.seconds) as bound:
                body = await read_body(scope, receive, self.limits.body)
                return await work(client_of(scope.get("client")), served, body)
        except TimeoutError:
            if not bound.expired():
                raise
            raise (slow_body if body is None else too_late)(self.limits.seconds) from None
        finally:
            self.busy -= 1

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """All other routes; what Starlette refuses is told as everything is."""
        scope["app"] = self
        if self.gate.answers_others and scope["method"] == "OPTIONS":  # a browser asks first, and sends no token then
            return await Response(status_code=204)(scope, receive, send)
        self.gate.check_token(scope)
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            raise _told(error, scope) from None
        return None

    def _check_ready(self) -> None:
        if self.stopping:
            raise unavailable("stopping", "The service is stopping and begins nothing new. Ask its successor.")
        if not self.ready:
            raise unavailable("not_ready", "The service is still compiling. GET /readyz tells when it is ready.")

    def _short_ways(self) -> dict[str, tuple[str, Hot, Served]]:
        do = self.endpoints
        return {
            f"/v1/models/{name}/{route}": (route, work, served)
            for name, served in self.models.items()
            for route, work in (("adapt", do.adapt), ("predict", do.predict), ("task", do.draw))
        }

    async def _life(self, receive: Receive, send: Send) -> None:
        """Starts with the server and stops with it."""
        await receive()
        ticking = asyncio.create_task(self._tick())
        warming = asyncio.create_task(asyncio.to_thread(self._warm))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.stopping = True
        ticking.cancel()
        self.engine.stop()
        await warming
        self.log.event("stopped", requests=self.metrics.answers)
        await send({"type": "lifespan.shutdown.complete"})

    def _warm(self) -> None:
        try:
            self.engine.warm(self._now_ready)
            gc.collect()
            gc.freeze()  # what is here stays; to look through it again and again would stop every request for a while
            self.warm = True
            self.log.event("warm", programs=len(self.engine.programs))
        except CancelledError:
            return
        except Exception as error:
            self.failed = str(error)
            self.log.event("failed", error=repr(error), traceback=traceback.format_exc())

    def _now_ready(self) -> None:
        self.ready = True
        self.log.event("ready", models=list(self.models), programs=len(self.engine.programs))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self.engine.gatherer.tidy()
            self.adapters.tidy()
            self.log.flush()

    def _measure(self) -> None:
        self.metrics.gauges |= {
            "fewstep_ready": ("1 when it answers.", lambda: float(self.ready)),
            "fewstep_warm": ("1 when all usual programs are compiled.", lambda: float(self.warm)),
            "fewstep_busy_requests": ("Requests being answered.", lambda: self.busy),
            "fewstep_connections": ("Open connections.", lambda: self.connections.total),
            "fewstep_adapters": ("Adapters kept.", lambda: len(self.adapters)),
            "fewstep_adapter_bytes": ("Bytes of the adapters kept.", lambda: self.adapters.bytes),
            "fewstep_adapters_evicted_total": ("Adapters dropped.", lambda: self.adapters.evicted),
            "fewstep_programs": ("Compiled programs.", lambda: len(self.engine.programs)),
            "fewstep_compiling": ("Programs being compiled for requests.", lambda: self.engine.compiling),
            "fewstep_resident_bytes": ("Memory of the process.", resident_bytes),
            "fewstep_uptime_seconds": ("Since the start.", lambda: time.time() - self.metrics.began),
        }


def _check_headers(scope: Scope, most: int) -> None:
    if len(scope["headers"]) > most:
        told = f"The request has {len(scope['headers'])} headers and the limit is {most}. Send fewer."
        raise Refusal(431, "too_many_headers", told, [(b"connection", b"close")])


def _check_json(scope: Scope) -> None:
    """Refuses a body that does not say it is JSON: a browser sends what does to another origin only after asking."""
    kind = header(scope, b"content-type") or b""
    if not kind.lower().startswith(b"application/json"):
        sent = repr(kind[:80].decode(errors="replace")) if kind else "of no type"
        told = f"The body is {sent}. Send JSON, and the header  content-type: application/json."
        raise Refusal(415, "not_json", told)


def _check_encoding(scope: Scope) -> None:
    encoding = header(scope, b"content-encoding")
    if encoding and encoding.lower() != b"identity":
        sent = repr(encoding[:80].decode(errors="replace"))
        told = f"The body has the content-encoding {sent}, and the service decodes none. Send the JSON as it is."
        raise Refusal(415, "encoded_body", told)


def _watched(send: Send, told: list[int], more: Headers) -> Send:
    """Notes the status of an answer, and adds what all answers carry."""

    async def watched(message: Any) -> None:
        if message["type"] == "http.response.start":
            told[0] = message["status"]
            given = {name for name, _ in message["headers"]}
            safe = [pair for pair in safe_headers() if pair[0] not in given]
            message["headers"] = [*message["headers"], *safe, *more]
        await send(message)

    return watched


def _told(error: HTTPException, scope: Scope) -> Refusal:
    headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "other methods")
        return Refusal(405, "wrong_method", f"{scope['method']} does not apply here. Use {allowed}.", headers)
    if error.status_code == 404:
        path = Request(scope).url.path[:200]
        return Refusal(404, "not_found", f"There is nothing at {path}. GET /docs lists what there is.", headers)
    return Refusal(error.status_code, "refused", str(error.detail), headers)
