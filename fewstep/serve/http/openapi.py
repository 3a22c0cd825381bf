"""The service described for programs (OpenAPI), and that description as a page for people."""

import html
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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
    query: tuple[tuple[str, dict[str, Any]], ...] = ()
    media: str = "application/json"
    work: Work | None = None
    request: str = ""
    response: str = ""


def describe(
    routes: Sequence[RouteSpec], models: Iterable[str], limits: Limits, needs_token: Callable[[str], bool]
) -> dict[str, Any]:
    """The OpenAPI description."""
    paths: dict[str, Any] = {}
    guarded = False
    for route in routes:
        if route.summary:
            operation = paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, list(models))
            if needs_token(route.path):
                operation["security"], guarded = [{"token": []}], True
    about = f"Learns a task from a few examples. At most {limits.body} bytes per body, {limits.steps} steps."
    return {
        "openapi": "3.1.0",
        "info": {"title": "fewstep", "version": __version__, "description": about},
        "paths": paths,
        "components": {
            "schemas": schemas(),
            **({"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if guarded else {}),
        },
    }


def page(description: dict[str, Any]) -> str:
    """The description as a page, without a script."""
    info = description["info"]
    parts = [
        _section(path, method, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    forms = [
        f'<h3 id="{name}">{name}</h3><p>{html.escape(form.get("description", ""))}</p>'
        f"<pre tabindex=0>{html.escape(json.dumps(form, indent=2))}</pre>"
        for name, form in description["components"]["schemas"].items()
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>fewstep: the service</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="/docs.css">'
        f"</head><body><main><h1>fewstep {info['version']}: the service</h1>"
        f'<p>{html.escape(info["description"])} For programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(parts)}<h2>Forms</h2>{''.join(forms)}</main></body></html>"
    )


def style() -> str:
    """The page's style."""
    return (
        ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0}"
        "main{max-width:52rem;margin:auto;padding:1rem}pre{overflow:auto;font-size:.8rem}h2{font-size:1.1rem}"
        "code{overflow-wrap:anywhere}"
    )


def _section(path: str, method: str, operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    sent = f' Send <a href="#{name}">{name}</a>.' if name else ""
    answers = operation["responses"].items()
    reasons = "".join(f"<li>{code}: {html.escape(answer['description'])}</li>" for code, answer in answers)
    head = f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
    return f"{head}<p>{html.escape(operation['summary'])}{sent}</p><ul>{reasons}</ul>"


def _operation(route: RouteSpec, models: list[str]) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": route.summary, "parameters": _parameters(route, models)}
    if route.request:
        operation["requestBody"] = {"required": True, "content": _content(route.request)}
    return operation | {"responses": _answer(route) | _refusals(*route.refusals)}


def _parameters(route: RouteSpec, models: list[str]) -> list[dict[str, Any]]:
    names = {"type": "string", "enum": models} if models and route.path.startswith("/v1/models") else {"type": "string"}
    return [
        *(
            {"name": name, "in": "path", "required": True, "schema": names if name == "name" else {"type": "string"}}
            for name in re.findall(r"{(\w+)}", route.path)
        ),
        *({"name": name, "in": "query", "schema": schema} for name, schema in route.query),
    ]


def _answer(route: RouteSpec) -> dict[str, Any]:
    if route.method == "DELETE":
        return {"204": {"description": "Deleted."}}
    if route.response:
        return {"200": {"description": "Done.", "content": _content(route.response)}}
    schema = {"type": "object" if route.media == "application/json" else "string"}
    return {"200": {"description": "The answer.", "content": {route.media: {"schema": schema}}}}


def _refusals(*codes: int) -> dict[str, Any]:
    every = sorted({*codes, 421})
    return {str(code): {"description": _REASONS[code], "content": _content("ErrorResponse")} for code in every}


def _content(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
