"""Starts the service on a socket, and stops it gracefully: what has begun is finished, nothing new is begun."""

import asyncio
import contextlib
import errno
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import uvicorn
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from fewstep._errors import FewstepError
from fewstep.serve.http.access import is_loopback
from fewstep.serve.http.app import Service
from fewstep.serve.http.connection import Connection
from fewstep.serve.http.logging import capture_uvicorn

_HEAD = 30.0  # seconds for the head of a request to arrive, and without one until a connection is closed
_SWITCH = 0.001  # seconds: the thread that computes and the one that reads requests take turns this often


_Busy = tuple[RequestResponseCycle | None, bool]  # the last request of a connection, and whether it is being answered


class _Server(uvicorn.Server):
    """uvicorn, which ends with exit code 0 when it is asked to end, and closes connections on which nothing comes."""

    def __init__(self, service: Service, grace: float):
        super().__init__(config(service, grace))
        self._service = service
        self._idle: dict[Connection, tuple[_Busy, float]] = {}  # by connection, since when it is so

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are taken by `_run`."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Looks at the connections once a second. uvicorn itself closes those that are silent after an answer, and
        waits for ever for a first request, for the rest of a head, or for a client to read an answer."""
        if counter % 10 == 0:
            self._close_idle(time.monotonic())
        return await super().on_tick(counter)

    def _close_idle(self, now: float) -> None:
        before, self._idle = self._idle, {}
        for connection in [each for each in self.server_state.connections if isinstance(each, Connection)]:
            last, transport = connection.cycle, connection.transport
            busy = last is not None and not last.response_complete
            state, since = before.get(connection, (None, now))
            since = since if state == (last, busy) else now
            self._idle[connection] = ((last, busy), since)
            if now - since > _HEAD + (self._service.limits.seconds if busy else 0.0):
                # A transport that is closed waits until all is read that it has written, and some clients never do.
                (transport.abort if transport.is_closing() else transport.close)()


def serve(service: Service, *, host: str = "127.0.0.1", port: int = 8000, grace: float = 30.0) -> int:
    """Serves until SIGINT or SIGTERM; returns the exit code. Requests that have begun get `grace` seconds to finish.
    Port 0 is a free one; the log has the address.

    Example::

        serve(Service(["runs/mtnet"]), port=8000)
    """
    listener = listen(host, port)
    sys.setswitchinterval(_SWITCH)
    service.log.event("listening", url=_bind(service, listener), models=list(service.models))
    server = _Server(service, grace)
    with (
        capture_uvicorn(service.log),
        contextlib.suppress(asyncio.CancelledError),
        asyncio.Runner(loop_factory=_loop()) as runner,
    ):
        runner.run(_run(server, service, listener))
    return 0


def _bind(service: Service, listener: socket.socket) -> str:
    """Sets where a service listens; returns its address."""
    name, number = listener.getsockname()[:2]
    service.access.bind(name)
    if not is_loopback(name) and not service.access.has_token:
        fact = f"Whoever reaches {name}:{number} may use this service, for it has no token."
        service.log.event("warning", message=f"{fact} Set one with --token TOKEN.")
    return f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"


@contextlib.contextmanager
def background(service: Service, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serves in a thread for as long as the context lasts, and gives the address once the service is ready. Port 0 is a
    free one.

    Example::

        with background(Service(["runs/mtnet"])) as url, Client(url) as client:
            client.models()
    """
    listener = listen(host, port)
    url, server = _bind(service, listener), _Server(service, 5.0)

    def work() -> None:
        with capture_uvicorn(service.log), asyncio.Runner(loop_factory=_loop()) as runner:
            runner.run(server.serve(sockets=[listener]))

    thread = threading.Thread(target=work, name="serve")
    thread.start()
    try:
        while thread.is_alive() and not service.ready and service.failure is None:
            time.sleep(0.01)
        if not service.ready:
            raise FewstepError(f"The service could not start: {service.failure or 'its log says why'}.")
        yield url
    finally:
        service.stopping = server.should_exit = True
        thread.join()


def config(service: Service, grace: float) -> uvicorn.Config:
    """The configuration of uvicorn: quiet, with bounded connections."""
    return uvicorn.Config(
        service, http=Connection, log_config=None, access_log=False, server_header=False, proxy_headers=False,
        lifespan="on", ws="none", timeout_keep_alive=30, timeout_graceful_shutdown=int(grace), backlog=1024,
        limit_concurrency=None,
    )  # fmt: skip


def listen(host: str, port: int) -> socket.socket:
    """A socket on an address. Raises `FewstepError` if it is not free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        fix = "Choose another port, or 0 for a free one."
        if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
            fix = "The host must be an address of this machine, such as 127.0.0.1."
        raise FewstepError(f"Cannot listen on {host}:{port}: {reason}. {fix}") from None
    listener.setblocking(False)
    return listener


async def _run(server: uvicorn.Server, service: Service, listener: socket.socket) -> None:
    loop, stop = asyncio.get_running_loop(), partial(_stop, server, service)
    with contextlib.suppress(NotImplementedError, RuntimeError):  # no signals on Windows, or outside the main thread
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
    await server.serve(sockets=[listener])


def _stop(server: uvicorn.Server, service: Service) -> None:
    """Stops gracefully; the second time at once: then uvicorn does not notify the service, and its threads would first
    finish compiling."""
    if service.stopping:
        server.force_exit = True
        service.scheduler.stop()
    service.stopping = server.should_exit = True


def _loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
