"""The service described for programs (OpenAPI), and that description as a page for people."""

import html
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from fewstep import __version__
from fewstep.serve.endpoints import Endpoints
from fewstep.serve.limits import Limits
from fewstep.serve.schema import schemas
from fewstep.serve.served_model import ServedModel

if TYPE_CHECKING:
    from fewstep.serve.http.app import Service

_REASONS = {
    400: "The body is not JSON.", 401: "The token is missing or wrong.", 403: "A web page of another origin asks.",
    404: "There is no such thing.", 405: "The method does not apply.",
    410: "The adapter is gone: send the support again.", 413: "The body is too large.",
    415: "The body's type is not JSON, or it is compressed.", 421: "The host is not one of the service's.",
    422: "The request does not fit: its form, a limit, or a result that is not finite.",
    429: "Too many requests at once.", 503: "Starting, stopping, or out of time.",
}  # fmt: skip

Handler = Callable[["Service", Request], Awaitable[Response]]
Work = Callable[[Endpoints, str, ServedModel, bytes], Awaitable[bytes]]


class RouteSpec(NamedTuple):
    """A route: what does it, and how it is described; without a summary it is not. A route that computes has `work`
    instead of a handler, with the names of the schemas of its request and response."""

    method: str
    path: str
    handler: Handler | None
    summary: str = ""
    refusals: tuple[int, ...] = (401,)
    query: tuple[tuple[str, Mapping[str, object]], ...] = ()
    media: str = "application/json"
    work: Work | None = None
    request: str = ""
    response: str = ""


def describe(
    routes: Sequence[RouteSpec], models: list[str], limits: Limits, needs_token: Callable[[str], bool]
) -> dict[str, object]:
    """The OpenAPI description."""
    paths: dict[str, dict[str, object]] = {}
    for route in routes:
        if route.summary:
            security: dict[str, object] = {"security": [{"token": []}]} if needs_token(route.path) else {}
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, models) | security
    tokens = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "fewstep", "version": __version__, "description": _about(limits)},
        "paths": paths,
        "components": {"schemas": schemas()} | (tokens if any(map(needs_token, paths)) else {}),
    }


def page(routes: Sequence[RouteSpec], limits: Limits) -> str:
    """The description as a page, without a script."""
    parts = [_section(route) for route in routes if route.summary]
    forms = [
        f'<h3 id="{name}">{name}</h3><p>{html.escape(str(form.get("description", "")))}</p>'
        f"<pre tabindex=0>{html.escape(json.dumps(form, indent=2))}</pre>"
        for name, form in schemas().items()
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>fewstep: the service</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="/docs.css">'
        f"</head><body><main><h1>fewstep {__version__}: the service</h1>"
        f'<p>{html.escape(_about(limits))} For programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(parts)}<h2>Forms</h2>{''.join(forms)}</main></body></html>"
    )


def style() -> str:
    """The page's style."""
    return (
        ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0}"
        "main{max-width:52rem;margin:auto;padding:1rem}pre{overflow:auto;font-size:.8rem}h2{font-size:1.1rem}"
        "code{overflow-wrap:anywhere}"
    )


def _about(limits: Limits) -> str:
    return f"Learns a task from a few examples. At most {limits.body} bytes per body, {limits.steps} steps."


def _section(route: RouteSpec) -> str:
    request = f' Send <a href="#{route.request}">{route.request}</a>.' if route.request else ""
    success, reason = _success(route)
    reasons = {success: reason} | {code: _REASONS[code] for code in _refusals(route)}
    items = "".join(f"<li>{code}: {html.escape(reason)}</li>" for code, reason in reasons.items())
    head = f"<h2><code>{route.method} {html.escape(route.path)}</code></h2>"
    return f"{head}<p>{html.escape(route.summary)}{request}</p><ul>{items}</ul>"


def _operation(route: RouteSpec, models: list[str]) -> dict[str, object]:
    body = {"requestBody": {"required": True, "content": _content(route.request)}} if route.request else {}
    refusals = {
        str(code): {"description": _REASONS[code], "content": _content("ErrorResponse")} for code in _refusals(route)
    }
    parameters = {"summary": route.summary, "parameters": _parameters(route, models)}
    return parameters | body | {"responses": _answer(route) | refusals}


def _parameters(route: RouteSpec, models: list[str]) -> list[dict[str, object]]:
    names = {"type": "string", "enum": models} if models and route.path.startswith("/v1/models") else {"type": "string"}
    return [
        *(
            {"name": name, "in": "path", "required": True, "schema": names if name == "name" else {"type": "string"}}
            for name in re.findall(r"{(\w+)}", route.path)
        ),
        *({"name": name, "in": "query", "schema": schema} for name, schema in route.query),
    ]


def _success(route: RouteSpec) -> tuple[int, str]:
    if route.method == "DELETE":
        return 204, "Deleted."
    return 200, "Done." if route.response else "The answer."


def _answer(route: RouteSpec) -> dict[str, dict[str, object]]:
    code, description = _success(route)
    if code == 204:
        return {"204": {"description": description}}
    schema = {"type": "object" if route.media == "application/json" else "string"}
    content = _content(route.response) if route.response else {route.media: {"schema": schema}}
    return {"200": {"description": description, "content": content}}


def _refusals(route: RouteSpec) -> list[int]:
    return sorted({*route.refusals, 421})


def _content(name: str) -> dict[str, dict[str, dict[str, str]]]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
