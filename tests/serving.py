"""What the tests of the service share: small runs, services in a thread or a process on loopback, and raw requests."""

import dataclasses
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from fewstep.experiments import Experiment
from fewstep.runs import create_run
from fewstep.runs.log import to_lines
from fewstep.serve import Limits, Log, Service, background
from fewstep.training import Row, first_state

SINE = {"x": [[-2.0], [-1.0], [0.5], [1.0], [2.0]], "y": [[0.4], [1.2], [-1.0], [-1.5], [-0.3]]}


def begun(folder: Path, rule: str, **options: Any) -> Path:
    """A run that was begun: its first weights. To train it would take longer, and the service cares for neither."""
    options = {"tasks": "sinusoid", "hidden": (6,), "init": "he", "inner_lr": 0.02, "steps": 40} | options
    run = create_run(
        folder / Path(rule).name.replace(":", "-"),
        Experiment(rule, **{k: v for k, v in options.items() if v is not None}),
    )
    built = run.build()
    run.save(first_state(built.learner, built.optimizer, run.seeds))
    run.restore_log(0)
    run.append(
        to_lines([Row(step, [4.0 / step], [1.0], [3.0] if step == 40 else None) for step in (20, 40)], run.seeds)
    )
    return run.path


@contextmanager
def service(paths: Any, **options: Any) -> Any:
    """A running service: its address and itself. Options that are limits are limits."""
    names = {field.name for field in dataclasses.fields(Limits)}
    # Time enough to compile on a machine that is busy with other tests.
    limits = Limits(**{"seconds": 120.0, **{name: value for name, value in options.items() if name in names}})
    others = {"max_batch": 4, "log": Log("problems")} | {
        name: value for name, value in options.items() if name not in names
    }
    made = Service(paths, limits, **{"max_batch": 4, "log": Log("problems"), **others})
    with background(made) as url:
        yield url, made


class Kept(Log):
    """A log that is looked at."""

    def __init__(self):
        super().__init__()
        self.events = []

    def event(self, event, **told):
        """Notes an event."""
        self.events.append((event, told))


class Process:
    """`fewstep serve` as a process of its own: its address, and the events of its log."""

    def __init__(self, *args, env=None):
        command = [sys.executable, "-m", "fewstep", "serve", *map(str, args), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
        self.events = []
        self.thread = threading.Thread(target=self._read)
        self.thread.start()
        self.url = self.wait("listening")["url"]
        self.wait("ready")

    def _read(self):
        for line in self.process.stderr:
            self.events.append(json.loads(line))

    def wait(self, event):
        """The first event of that name in the log, once it is there."""
        found = lambda: [told for told in self.events if told["event"] == event]
        until(lambda: found() or self.process.poll() is not None)
        assert found(), self.events
        return found()[0]

    def end(self, how=signal.SIGTERM):
        """Sends a signal; returns the exit code."""
        self.process.send_signal(how)
        code = self.process.wait(600)
        self.thread.join()
        self.process.stderr.close()
        return code


def ask(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
    """Status, content and headers of an answer; a body that is not bytes is sent as JSON."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=600)
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    head = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, content, head)
    answer = connection.getresponse()
    raw = answer.read()
    connection.close()
    told = {name.lower(): value for name, value in answer.getheaders()}
    return answer.status, json.loads(raw) if "json" in told.get("content-type", "") else raw.decode(), told


def hold(made: Service, held: threading.Event) -> None:
    """Keeps the workers of a service busy until an event is set."""
    for lane in made.scheduler.batcher.lanes:
        lane.worker.submit(held.wait, 600)


def until(condition: Callable[[], Any], seconds: float = 180.0) -> None:
    """Waits for something to be true, however busy the machine is."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def begin(url: str, path: str, body: bytes = b"", *, length: int | None = None) -> socket.socket:
    """A connection on which a request was begun: its head, and some of its body."""
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=600)
    head = f"POST {path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
    connection.sendall(f"{head}content-length: {len(body) if length is None else length}\r\n\r\n".encode() + body)
    return connection


def raw(url: str, content: bytes, *, seconds: float = 60.0) -> bytes:
    """What comes back for bytes as they are."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=seconds) as connection:
        connection.sendall(content)
        return connection.recv(65536)


def sine(seed: int, points: int = 10) -> dict[str, Any]:
    """A support set of a random wave."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-5, 5, (points, 1))
    return {"x": x.tolist(), "y": (rng.uniform(0.1, 5) * np.sin(x + rng.uniform(0, 3))).tolist()}
