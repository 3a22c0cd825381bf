"""Starts the service on a socket, and stops it gracefully: what was begun is finished, nothing new is begun."""

import asyncio
import contextlib
import errno
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import uvicorn

from fewstep._errors import FewstepError
from fewstep.serve._app import Service
from fewstep.serve._connection import Connection
from fewstep.serve._gate import is_loopback
from fewstep.serve._log import taking_over

_HEAD = 30.0  # seconds for the head of a request to arrive, and without one until a connection is closed
_SWITCH = 0.001  # seconds: the thread that computes and the one that reads requests take turns this often


class _Server(uvicorn.Server):
    """uvicorn, which ends with exit code 0 when it is asked to end, and closes connections on which nothing comes."""

    def __init__(self, service: Service, grace: float):
        super().__init__(config(service, grace))
        self._service = service
        self._idle: dict[Any, tuple[Any, float]] = {}  # by connection: its last request, whether answered; since when

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
        connections: list[Any] = list(self.server_state.connections)
        for connection in connections:
            last, transport = connection.cycle, connection.transport
            busy = last is not None and not last.response_complete
            known, since = before.get(connection, (None, now))
            since = since if known == (last, busy) else now
            self._idle[connection] = ((last, busy), since)
            if now - since > _HEAD + (self._service.limits.seconds if busy else 0.0):
                # A transport that is closed waits until all is read that it has written, and some clients never do.
                (transport.abort if transport.is_closing() else transport.close)()


def run(service: Service, *, host: str, port: int, grace: float = 30.0) -> int:
    """Serves until a signal comes; returns the exit code."""
    listening = listen(host, port)
    sys.setswitchinterval(_SWITCH)
    service.log.event("listening", url=_open(service, listening), models=list(service.models))
    server = _Server(service, grace)
    with (
        taking_over(service.log),
        contextlib.suppress(asyncio.CancelledError),
        asyncio.Runner(loop_factory=_loop()) as runner,
    ):
        runner.run(_run(server, service, listening))
    return 0


def _open(service: Service, listening: socket.socket) -> str:
    """Tells a service where it listens; returns its address."""
    name, number = listening.getsockname()[:2]
    service.gate.bind(name)
    if not is_loopback(name) and not service.gate.has_token:
        told = f"Whoever reaches {name}:{number} may use this service, for it has no token. Set one with --token TOKEN."
        service.log.event("warning", message=told)
    return f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"


@contextlib.contextmanager
def background(service: Service, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serves in a thread, for as long as the context lasts; gives the address once it is ready."""
    listening = listen(host, port)
    url, server = _open(service, listening), _Server(service, 5.0)

    def work() -> None:
        with taking_over(service.log), asyncio.Runner(loop_factory=_loop()) as runner:
            runner.run(server.serve(sockets=[listening]))

    thread = threading.Thread(target=work, name="serve")
    thread.start()
    try:
        while thread.is_alive() and not service.ready and service.failed is None:
            time.sleep(0.01)
        if not service.ready:
            raise FewstepError(f"The service could not start: {service.failed or 'its log says why'}.")
        yield url
    finally:
        service.stopping = server.should_exit = True
        thread.join()


def config(service: Service, grace: float) -> uvicorn.Config:
    """How uvicorn is to work: quietly, with connections that are bounded."""
    return uvicorn.Config(
        service, http=Connection, log_config=None, access_log=False, server_header=False, proxy_headers=False,
        lifespan="on", ws="none", timeout_keep_alive=30, timeout_graceful_shutdown=int(grace), backlog=1024,
        limit_concurrency=None,
    )  # fmt: skip


def listen(host: str, port: int) -> socket.socket:
    """A socket on an address. Raises `FewstepError` when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(1024)
    except (OSError, OverflowError) as error:
        made.close()
        why = getattr(error, "strerror", None) or error
        fix = "Choose another --port, or 0 for a free one."
        if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
            fix = "Give an address of this machine with --host, such as 127.0.0.1."
        raise FewstepError(f"Cannot listen on {host}:{port}: {why}. {fix}") from None
    made.setblocking(False)
    return made


async def _run(server: uvicorn.Server, service: Service, listening: socket.socket) -> None:
    loop, stop = asyncio.get_running_loop(), partial(_stop, server, service)
    with contextlib.suppress(NotImplementedError, RuntimeError):  # no signals on Windows, or outside the main thread
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
    await server.serve(sockets=[listening])


def _stop(server: uvicorn.Server, service: Service) -> None:
    """Stops gracefully; asked for the second time, at once: then uvicorn does not tell the service, and its threads
    would first compile all they have begun with."""
    if service.stopping:
        server.force_exit = True
        service.engine.stop()
    service.stopping = server.should_exit = True


def _loop() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
