"""The routes beside adapting and predicting: models, adapters, runs, health, descriptions, and the playground."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from fewstep.serve._models import Served
from fewstep.serve._openapi import describe, page, style
from fewstep.serve._refusal import Refusal, not_found, unavailable
from fewstep.serve._runs import list_runs, read_log
from fewstep.serve._wire import encode

if TYPE_CHECKING:
    from fewstep.serve._app import Service

_STATIC = Path(__file__).parent / "static"
_KNOWN = ("adapt", "predict", "task", "adapters", "models", "runs", "log")


def routes(service: "Service") -> list[BaseRoute]:
    """The routes of a service."""
    described = lambda: describe(service.models, service.limits, service.gate.needs_token)
    every: list[BaseRoute] = [
        Route("/v1/models", _models(service)),
        Route("/v1/models/{name}", _model(service)),
        Route("/v1/models/{name}/adapters/{adapter}", _forget(service), methods=["DELETE"]),
        Route("/v1/models/{name}/{work}", _no_model(service), methods=["POST"]),
        Route("/v1/runs", _runs(service)),
        Route("/v1/runs/{name}/log", _log(service)),
        Route("/healthz", lambda request: _json({"status": "alive"})),
        Route("/readyz", _readyz(service)),
        Route("/metrics", lambda request: PlainTextResponse(service.metrics.text(), media_type=_PROMETHEUS)),
        Route("/openapi.json", lambda request: _json(described())),
        Route("/docs", lambda request: HTMLResponse(page(described()))),
        Route("/docs.css", lambda request: Response(style(), media_type="text/css")),
    ]
    if (_STATIC / "index.html").is_file():
        index = lambda request: FileResponse(_STATIC / "index.html")
        return [*every, Route("/", index), Mount("/static", StaticFiles(directory=_STATIC))]
    return [*every, Route("/", lambda request: RedirectResponse("/docs"))]


_PROMETHEUS = "text/plain; version=0.0.4"


def route_name(path: str) -> str:
    """A short name for the metrics, of which there are few whatever clients ask for."""
    parts = path.split("/")
    if parts[1:2] != ["v1"]:
        return path[1:] if path in ("/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs") else "other"
    return next((part for part in reversed(parts[2:]) if part in _KNOWN), "other")


def _json(told: Any) -> Response:
    return Response(encode(told), media_type="application/json")


def _served(service: "Service", name: str) -> Served:
    if name not in service.models:
        known = ", ".join(service.models) or "none"
        raise not_found("unknown_model", f"There is no model {name[:80]!r}. There are: {known}.")
    return service.models[name]


def _models(service: "Service") -> Any:
    async def models(request: Request) -> Response:
        told = await run_in_threadpool(lambda: [served.description for served in service.models.values()])
        return _json({"models": told})

    return models


def _model(service: "Service") -> Any:
    async def model(request: Request) -> Response:
        served = _served(service, request.path_params["name"])
        return _json(await run_in_threadpool(lambda: served.description))

    return model


def _forget(service: "Service") -> Any:
    async def forget(request: Request) -> Response:
        served = _served(service, request.path_params["name"])
        service.adapters.forget(served.name, request.path_params["adapter"])
        return Response(status_code=204)

    return forget


def _no_model(service: "Service") -> Any:
    """Where a request lands that names no model of ours: the models' own ways are shorter."""

    async def no_model(request: Request) -> Response:
        _served(service, request.path_params["name"])
        told = f"A model has no {request.path_params['work'][:80]!r}. It has: adapt, predict, task."
        raise not_found("not_found", told)

    return no_model


def _runs(service: "Service") -> Any:
    async def runs(request: Request) -> Response:
        return _json({"runs": await run_in_threadpool(list_runs, service.runs)})

    return runs


def _log(service: "Service") -> Any:
    async def log(request: Request) -> Response:
        after = request.query_params.get("after", "-1")
        if not after.removeprefix("-").isascii() or not after.removeprefix("-").isdigit() or len(after) > 12:
            raise Refusal(422, "bad_step", f'"after" is {after[:80]!r}. Give a whole number of steps.')
        return _json(await run_in_threadpool(read_log, service.runs, request.path_params["name"], int(after)))

    return log


def _readyz(service: "Service") -> Any:
    async def readyz(request: Request) -> Response:
        if service.stopping:
            raise unavailable("stopping", "The service is stopping.")
        if service.failed is not None:
            raise unavailable("failed", f"The service could not start: {service.failed}")
        if not service.ready:
            raise unavailable("not_ready", "The service is compiling its programs. Ask again in a moment.")
        return _json({"status": "ready"})

    return readyz
