"""Trained runs as a service over HTTP, and a client for it.

Serve in Python, or embed the ASGI application `Service`::

    from fewstep.serve import Limits, Service, serve

    serve(Service(["runs/mtnet"], Limits(points=64)), port=8000)

The client needs nothing beside Python; the rest is imported when it is first used, and needs `fewstep[serve]`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from fewstep._errors import FewstepError
from fewstep.serve.client import Client as Client
from fewstep.serve.client import ServiceError as ServiceError

if TYPE_CHECKING:
    from fewstep.serve.http.app import Service as Service
    from fewstep.serve.http.logging import Log as Log
    from fewstep.serve.http.server import background as background
    from fewstep.serve.http.server import serve as serve
    from fewstep.serve.limits import Limits as Limits

_LAZY = {
    "Limits": "limits", "Log": "http.logging", "Service": "http.app", "background": "http.server",
    "serve": "http.server",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    except ImportError as error:
        raise FewstepError(f"Serving needs {error.name}: pip install 'fewstep[serve]'.") from None
