"""The routes: what each does, and how it is described. Those that compute are dispatched by the application itself."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from fewstep.serve.endpoints import Endpoints
from fewstep.serve.errors import Refusal, not_found, unavailable
from fewstep.serve.http.openapi import RouteSpec, describe, page, style
from fewstep.serve.run_listing import list_runs, read_log
from fewstep.serve.schema import encode
from fewstep.serve.served_model import ServedModel

if TYPE_CHECKING:
    from fewstep.serve.http.app import Service

_STATIC = Path(__file__).parents[1] / "static"
_PROMETHEUS = "text/plain; version=0.0.4"


def _json(value: object) -> Response:
    return Response(encode(value), media_type="application/json")


def _model(service: "Service", request: Request) -> ServedModel:
    name = request.path_params["name"]
    if name not in service.models:
        names = ", ".join(service.models) or "none"
        raise not_found("unknown_model", f"There is no model {name[:80]!r}. There are: {names}.")
    return service.models[name]


async def _list_models(service: "Service", request: Request) -> Response:
    models = await run_in_threadpool(lambda: [model.description for model in service.models.values()])
    return _json({"models": models})


async def _show_model(service: "Service", request: Request) -> Response:
    model = _model(service, request)
    return _json(await run_in_threadpool(lambda: model.description))


async def _forget(service: "Service", request: Request) -> Response:
    service.adapters.forget(_model(service, request).name, request.path_params["adapter"])
    return Response(status_code=204)


async def _no_work(service: "Service", request: Request) -> Response:
    """For requests to compute that name no model or work of ours: those that do are dispatched before."""
    _model(service, request)
    work = request.path_params["work"][:80]
    raise not_found("not_found", f"A model has no {work!r}. It has: adapt, predict, task.")


async def _list_runs(service: "Service", request: Request) -> Response:
    return _json({"runs": await run_in_threadpool(list_runs, service.runs)})


async def _show_log(service: "Service", request: Request) -> Response:
    after = request.query_params.get("after", "-1")
    if not after.removeprefix("-").isascii() or not after.removeprefix("-").isdigit() or len(after) > 12:
        raise Refusal(422, "bad_step", f'"after" is {after[:80]!r}. Give a whole number of steps.')
    return _json(await run_in_threadpool(read_log, service.runs, request.path_params["name"], int(after)))


async def _alive(service: "Service", request: Request) -> Response:
    return _json({"status": "alive"})


async def _ready(service: "Service", request: Request) -> Response:
    if service.stopping:
        raise unavailable("stopping", "The service is stopping.")
    if service.failure is not None:
        raise unavailable("failed", f"The service could not start: {service.failure}")
    if not service.ready:
        raise unavailable("not_ready", "The service is compiling its programs. Ask again in a moment.")
    return _json({"status": "ready"})


async def _metrics(service: "Service", request: Request) -> Response:
    return PlainTextResponse(service.metrics.text(), media_type=_PROMETHEUS)


async def _openapi(service: "Service", request: Request) -> Response:
    return _json(describe(ROUTES, list(service.models), service.limits, service.access.needs_token))


async def _docs(service: "Service", request: Request) -> Response:
    return HTMLResponse(page(ROUTES, service.limits))


async def _docs_style(service: "Service", request: Request) -> Response:
    return Response(style(), media_type="text/css")


async def _front_page(service: "Service", request: Request) -> Response:
    index = _STATIC / "index.html"
    return FileResponse(index) if index.is_file() else RedirectResponse("/docs")


_REFUSALS = (400, 401, 403, 404, 413, 415, 422, 429, 503)
_AFTER = (("after", {"type": "integer", "minimum": -1, "maximum": 10**9}),)
ROUTES = (
    RouteSpec("GET", "/v1/models", _list_models, "The models."),
    RouteSpec("GET", "/v1/models/{name}", _show_model, "A model.", (401, 404)),
    RouteSpec("POST", "/v1/models/{name}/adapt", None, "Learn a task.", _REFUSALS,
              work=Endpoints.adapt, request="AdaptRequest", response="AdaptResponse"),
    RouteSpec("POST", "/v1/models/{name}/predict", None, "Predict.", (*_REFUSALS, 410),
              work=Endpoints.predict, request="PredictRequest", response="PredictResponse"),
    RouteSpec("POST", "/v1/models/{name}/task", None, "Draw a random task.", _REFUSALS,
              work=Endpoints.task, request="TaskRequest", response="TaskResponse"),
    RouteSpec("POST", "/v1/models/{name}/{work}", _no_work),
    RouteSpec("DELETE", "/v1/models/{name}/adapters/{adapter}", _forget, "Forget an adapter.", (401, 403, 404, 410)),
    RouteSpec("GET", "/v1/runs", _list_runs, "The runs in the watched folder."),
    RouteSpec("GET", "/v1/runs/{name}/log", _show_log, "A run's log.", (401, 404, 422), _AFTER),
    RouteSpec("GET", "/healthz", _alive, "Whether the service is alive.", ()),
    RouteSpec("GET", "/readyz", _ready, "Whether it is ready.", (503,)),
    RouteSpec("GET", "/metrics", _metrics, "Counts for Prometheus.", media="text/plain"),
    RouteSpec("GET", "/openapi.json", _openapi),
    RouteSpec("GET", "/docs", _docs),
    RouteSpec("GET", "/docs.css", _docs_style),
    RouteSpec("GET", "/", _front_page),
)  # fmt: skip
_PAGES = ("/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs")
_NAMES = ("adapt", "predict", "task", "adapters", "models", "runs", "log")


def make_routes(service: "Service") -> Iterator[BaseRoute]:
    """The routes of a service for Starlette, and the files of the front page."""
    for route in ROUTES:
        if route.handler is not None:
            yield Route(route.path, partial(route.handler, service), methods=[route.method])
    yield Mount("/static", StaticFiles(directory=_STATIC))


def route_name(path: str) -> str:
    """A short name for the metrics, of which there are few whatever clients ask for."""
    parts = path.split("/")
    if parts[1:2] != ["v1"]:
        return path[1:] if path in _PAGES else "other"
    return next((part for part in reversed(parts[2:]) if part in _NAMES), "other")
