"""Logs for machines: one JSON object per line on stderr. Lines about requests are written a few at a time."""

import contextlib
import logging
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Literal

import msgspec

Level = Literal["all", "problems"]
_FULL = 512


class Log:
    """Writes lines; `problems` leaves out requests that went well."""

    def __init__(self, level: Level = "all"):
        self.everything = level == "all"
        self._lines: deque[bytes] = deque()
        self._encode = msgspec.json.Encoder().encode

    def request(
        self, method: str, path: str, status: int, seconds: float, client: tuple[str, int] | None, code: str | None
    ) -> None:
        """A request that was answered."""
        if not self.everything and status < 500:
            return
        fields = {"time": _now(), "event": "request", "method": method, "path": path[:200], "status": status,
                  "milliseconds": round(1000 * seconds, 3), "client": client}  # fmt: skip
        if code:
            fields["code"] = code
        self._lines.append(self._encode(fields))
        if status >= 500 or len(self._lines) >= _FULL:
            self.flush()

    def event(self, event: str, **fields: object) -> None:
        """Something that happened to the service."""
        self._lines.append(self._encode({"time": _now(), "event": event, **fields}))
        self.flush()

    def flush(self) -> None:
        """Writes the waiting lines. They are taken one by one, so that none is lost if a thread adds some meanwhile."""
        lines = []
        with contextlib.suppress(IndexError):
            while True:
                lines.append(self._lines.popleft())
        if not lines:
            return
        try:
            sys.stderr.write(b"\n".join([*lines, b""]).decode(errors="replace"))
            sys.stderr.flush()
        except (OSError, ValueError):  # whoever read the log is gone; the service continues
            return


class _Handler(logging.Handler):
    """Forwards uvicorn's messages to a log."""

    def __init__(self, log: Log):
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record as an event."""
        fields = {"level": record.levelname.lower(), "message": record.getMessage().strip()}
        if record.exc_info:
            fields["traceback"] = logging.Formatter().formatException(record.exc_info)
        self._log.event("server", **fields)


@contextlib.contextmanager
def capture_uvicorn(log: Log) -> Iterator[None]:
    """Lets uvicorn write into a log, which is then JSON throughout."""
    logger, handler = logging.getLogger("uvicorn.error"), _Handler(log)
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _now() -> float:
    return round(time.time(), 3)
