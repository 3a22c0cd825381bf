"""The service as an ASGI application: it admits requests, dispatches them, and starts and ends with its server."""

import asyncio
import gc
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from fewstep.serve.adapter_store import AdapterStore
from fewstep.serve.batching.scheduler import Scheduler
from fewstep.serve.endpoints import Endpoints
from fewstep.serve.errors import Refusal, overloaded, slow_body, too_late, unavailable
from fewstep.serve.http import asgi
from fewstep.serve.http.access import Access, Public
from fewstep.serve.http.clients import Connections, client_of
from fewstep.serve.http.logging import Log
from fewstep.serve.http.metrics import Metrics, resident_bytes
from fewstep.serve.http.routes import ROUTES, make_routes, route_name
from fewstep.serve.limits import Limits
from fewstep.serve.served_model import ServedModel, load_models

_TICK = 0.25  # seconds between looks at what is no longer needed
Work = Callable[[str, ServedModel, bytes], Awaitable[bytes]]


class Service:
    """Trained runs as an ASGI application, for `serve` and `background` or any ASGI server with a lifespan.

    **Arguments:** `runs` are folders of runs, or names of models that come with the package; a model's name is its
    folder's. `batch_seconds` is how long requests wait for others to be adapted with, at most; 0 adapts each alone.
    `max_batch` is how many are adapted together. With a `token` clients must send it, except for what is `public`
    (`"metrics"`, `"docs"`). `cors` are origins of other web pages that may use the service, `hosts` names beside
    localhost under which it is asked. `watch` is a folder whose runs' training curves are shown.

    Requests to compute take a short path; the rest goes by Starlette's routes.
    """

    def __init__(
        self, runs: Sequence[Path | str], limits: Limits | None = None, *, batch_seconds: float = 0.002,
        max_batch: int = 64, token: str | None = None, cors: Sequence[str] = (), hosts: Sequence[str] = (),
        public: Sequence[Public] = (), watch: Path | None = None, log: Log | None = None,
    ):  # fmt: skip
        self.limits, self.runs, self.log = limits or Limits(), watch, log or Log()
        self.models = load_models(runs, self.limits)
        self.metrics = Metrics()
        self.scheduler = Scheduler(
            self.models, wait=batch_seconds, max_batch=max_batch, backlog=self.limits.backlog,
            observe=self.metrics.count_call,
        )  # fmt: skip
        self.adapters, self.connections = AdapterStore(self.limits), Connections(self.limits)
        self.endpoints = Endpoints(self.scheduler, self.adapters, self.limits.adapter_seconds)
        self.ready = self.warm = self.stopping = False
        self.failure: str | None = None
        self.busy = 0
        self.access = Access(token=token, cors=cors, hosts=hosts, public=public)
        self._short_paths = self._make_short_paths()
        self._router = Router(list(make_routes(self)))
        self._add_gauges()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, whatever happens."""
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        if scope["type"] != "http":
            return None
        start, status, code = time.perf_counter(), [0], None
        method, path = scope["method"], scope["path"]
        extra = self.access.origin_headers(scope) if self.access.allows_cors else ()
        short = self._short_paths.get(path) if method == "POST" else None
        try:
            asgi.check_headers(scope, self.limits.headers)
            self.access.check(scope)
            if short is not None:
                status[0] = 200
                await asgi.reply(send, 200, await self._compute(scope, receive, *short), more=extra)
            else:
                await self._route(scope, receive, asgi.watch(send, status, extra))
        except Refusal as refusal:
            status[0], code = refusal.status, refusal.code
            await asgi.refuse(send, refusal, extra)
        except (ConnectionResetError, asyncio.CancelledError):
            status[0], code = 499, "gone"  # the client has left: nobody reads an answer
        except Exception as error:
            status[0], code = 500, "internal_error"
            self.log.event("error", path=path, error=repr(error), traceback=traceback.format_exc())
            await asgi.refuse(send, Refusal(500, code, "Something went wrong in the service. See its log."), extra)
        seconds = time.perf_counter() - start
        self.metrics.count_answer(short[0] if short else route_name(path), status[0], seconds)
        self.log.request(method, path, status[0], seconds, scope.get("client"), code)
        return None

    def note_refusal(self, client: tuple[str, int] | None, refusal: Refusal) -> None:
        """Counts and logs what was refused before it was a request."""
        self.metrics.count_answer("other", refusal.status, 0.0)
        self.log.request("", "", refusal.status, 0.0, client, refusal.code)

    async def _compute(self, scope: Scope, receive: Receive, name: str, work: Work, model: ServedModel) -> bytes:
        """Admits a request that computes, reads it and does it, all within its time."""
        self.access.check_token(scope)
        self._check_ready()
        asgi.check_json(scope)
        if self.busy >= self.limits.requests:
            raise overloaded(f"{self.busy} requests are being answered, which is the limit. Wait a moment, and retry.")
        self.busy += 1
        body = None
        try:
            async with asyncio.timeout(self.limits.seconds) as bound:
                body = await asgi.read_body(scope, receive, self.limits.body)
                return await work(client_of(scope.get("client")), model, body)
        except TimeoutError:
            if not bound.expired():
                raise
            raise (slow_body if body is None else too_late)(self.limits.seconds) from None
        finally:
            self.busy -= 1

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        """All other routes; what Starlette refuses becomes a `Refusal` like any other."""
        scope["app"] = self
        if self.access.allows_cors and scope["method"] == "OPTIONS":  # a browser asks first, and sends no token then
            return await Response(status_code=204)(scope, receive, send)
        self.access.check_token(scope)
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            raise _refusal(error, scope) from None
        return None

    def _check_ready(self) -> None:
        if self.stopping:
            raise unavailable("stopping", "The service is stopping and begins nothing new. Ask its successor.")
        if not self.ready:
            raise unavailable("not_ready", "The service is still compiling. It is ready when GET /readyz answers 200.")

    def _make_short_paths(self) -> dict[str, tuple[str, Work, ServedModel]]:
        return {
            route.path.format(name=name): (route.path.rpartition("/")[2], partial(route.work, self.endpoints), model)
            for name, model in self.models.items()
            for route in ROUTES
            if route.work is not None
        }

    async def _live(self, receive: Receive, send: Send) -> None:
        """Starts with the server and stops with it."""
        await receive()
        ticker = asyncio.create_task(self._tick())
        warm_up = asyncio.create_task(asyncio.to_thread(self._warm_up))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.stopping = True
        ticker.cancel()
        self.scheduler.stop()
        await warm_up
        self.log.event("stopped", requests=self.metrics.answers)
        await send({"type": "lifespan.shutdown.complete"})

    def _warm_up(self) -> None:
        try:
            self.scheduler.warm(self._set_ready)
            gc.collect()
            gc.freeze()  # what is here stays; to look through it again and again would stop every request for a while
            self.warm = True
            self.log.event("warm", programs=len(self.scheduler.programs))
        except CancelledError:
            return
        except Exception as error:
            self.failure = str(error)
            self.log.event("failed", error=repr(error), traceback=traceback.format_exc())

    def _set_ready(self) -> None:
        self.ready = True
        self.log.event("ready", models=list(self.models), programs=len(self.scheduler.programs))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self.scheduler.batcher.tidy()
            self.adapters.tidy()
            self.log.flush()

    def _add_gauges(self) -> None:
        self.metrics.gauges |= {
            "fewstep_ready": ("1 when it answers.", lambda: float(self.ready)),
            "fewstep_warm": ("1 when all usual programs are compiled.", lambda: float(self.warm)),
            "fewstep_busy_requests": ("Requests being answered.", lambda: self.busy),
            "fewstep_connections": ("Open connections.", lambda: self.connections.total),
            "fewstep_adapters": ("Adapters in memory.", lambda: len(self.adapters)),
            "fewstep_adapter_bytes": ("Bytes of the adapters in memory.", lambda: self.adapters.bytes),
            "fewstep_adapters_evicted_total": ("Adapters dropped.", lambda: self.adapters.evictions),
            "fewstep_programs": ("Compiled programs.", lambda: len(self.scheduler.programs)),
            "fewstep_compiling": ("Programs being compiled for requests.", lambda: self.scheduler.compiling),
            "fewstep_resident_bytes": ("Memory of the process.", resident_bytes),
            "fewstep_uptime_seconds": ("Since the start.", lambda: time.time() - self.metrics.start),
        }


def _refusal(error: HTTPException, scope: Scope) -> Refusal:
    headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
    if error.status_code == 405:
        methods = (error.headers or {}).get("Allow", "other methods")
        return Refusal(405, "wrong_method", f"{scope['method']} does not apply here. Use {methods}.", headers)
    if error.status_code == 404:
        path = Request(scope).url.path[:200]
        return Refusal(404, "not_found", f"There is nothing at {path}. GET /docs lists all routes.", headers)
    return Refusal(error.status_code, "refused", str(error.detail), headers)
