"""The service described for programs (OpenAPI) and, made of that, for people."""

import html
import json
from collections.abc import Callable
from typing import Any

from fewstep import __version__
from fewstep.serve._limits import Limits
from fewstep.serve._models import Served
from fewstep.serve._schema import schemas

_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
_WHY = {
    400: "The body is not JSON.", 401: "The token is missing or wrong.", 403: "A web page of another origin asks.",
    404: "There is no such thing.", 405: "The method does not apply.",
    410: "The adapter is gone: send the support again.", 413: "The body is too large.",
    415: "The body's type is not JSON, or it is compressed.", 421: "The host is not one of the service's.",
    422: "The request does not fit: its form, a limit, or a result that is not finite.",
    429: "Too many requests at once.", 503: "Starting, stopping, or out of time.",
}  # fmt: skip
_WORK = (400, 401, 403, 404, 413, 415, 422, 429, 503)


def describe(models: dict[str, Served], limits: Limits, needs_token: Callable[[str], bool]) -> dict[str, Any]:
    """The OpenAPI description."""
    known = {**_NAME, "schema": {"type": "string", "enum": list(models)} if models else _NAME["schema"]}
    adapter = {"name": "adapter", "in": "path", "required": True, "schema": {"type": "string"}}
    after = {"name": "after", "in": "query", "schema": {"type": "integer", "minimum": -1, "maximum": 10**9}}
    paths = {
        "/v1/models": {"get": _get("The models.")},
        "/v1/models/{name}": {"get": _get("A model.", [known], (401, 404))},
        "/v1/models/{name}/adapt": {"post": _post("Learn a task.", "Adapt", "Adapted", known)},
        "/v1/models/{name}/predict": {"post": _post("Predict.", "Predict", "Predicted", known, 410)},
        "/v1/models/{name}/task": {"post": _post("Draw a random task.", "DrawTask", "Drawn", known)},
        "/v1/models/{name}/adapters/{adapter}": {
            "delete": {
                "summary": "Forget an adapter.", "parameters": [known, adapter],
                "responses": {"204": {"description": "Forgotten."}, **_refusals(401, 403, 404, 410)},
            }
        },
        "/v1/runs": {"get": _get("The runs of the folder that is watched.")},
        "/v1/runs/{name}/log": {"get": _get("A run's log.", [_NAME, after], (401, 404, 422))},
        "/healthz": {"get": _get("Whether the service is alive.", refusals=())},
        "/readyz": {"get": _get("Whether it is ready.", refusals=(503,))},
        "/metrics": {"get": _get("Counts for Prometheus.", media="text/plain")},
    }  # fmt: skip
    guarded = [operation for path, some in paths.items() if needs_token(path) for operation in some.values()]
    for operation in guarded:
        operation["security"] = [{"token": []}]
    about = f"Learns a task from a few examples. At most {limits.body} bytes a body, {limits.steps} steps."
    return {
        "openapi": "3.1.0",
        "info": {"title": "fewstep", "version": __version__, "description": about},
        "paths": paths,
        "components": {
            "schemas": schemas(),
            **({"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if guarded else {}),
        },
    }


def page(told: dict[str, Any]) -> str:
    """The description as a page, without a script."""
    parts = [_operation(path, method, of) for path, some in told["paths"].items() for method, of in some.items()]
    forms = [
        f'<h3 id="{name}">{name}</h3><p>{html.escape(form.get("description", ""))}</p>'
        f"<pre>{html.escape(json.dumps(form, indent=2))}</pre>"
        for name, form in told["components"]["schemas"].items()
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>fewstep: the service</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="/docs.css">'
        f"</head><body><main><h1>fewstep {told['info']['version']}: the service</h1>"
        f'<p>{html.escape(told["info"]["description"])} For programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(parts)}<h2>Forms</h2>{''.join(forms)}</main></body></html>"
    )


def style() -> str:
    """The page's style."""
    return (
        ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0}"
        "main{max-width:52rem;margin:auto;padding:1rem}pre{overflow:auto;font-size:.8rem}h2{font-size:1.1rem}"
        "code{overflow-wrap:anywhere}"
    )


def _operation(path: str, method: str, of: dict[str, Any]) -> str:
    form = of.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", "")
    name = form.rpartition("/")[2]
    sent = f' Send <a href="#{name}">{name}</a>.' if name else ""
    why = "".join(f"<li>{code}: {html.escape(each['description'])}</li>" for code, each in of["responses"].items())
    head = f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
    return f"{head}<p>{html.escape(of['summary'])}{sent}</p><ul>{why}</ul>"


def _get(
    summary: str, parameters: list[Any] | None = None, refusals: tuple[int, ...] = (401,), *,
    media: str = "application/json",
) -> dict[str, Any]:  # fmt: skip
    kind = "object" if media == "application/json" else "string"
    answer = {"description": "The answer.", "content": {media: {"schema": {"type": kind}}}}
    return {"summary": summary, "parameters": parameters or [], "responses": {"200": answer, **_refusals(*refusals)}}


def _post(summary: str, sent: str, answered: str, name: dict[str, Any], *more: int) -> dict[str, Any]:
    return {
        "summary": summary, "parameters": [name],
        "requestBody": {"required": True, "content": _form(sent)},
        "responses": {"200": {"description": "Done.", "content": _form(answered)}, **_refusals(*_WORK, *more)},
    }  # fmt: skip


def _refusals(*codes: int) -> dict[str, Any]:
    return {str(code): {"description": _WHY[code], "content": _form("Failure")} for code in sorted({*codes, 421})}


def _form(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
