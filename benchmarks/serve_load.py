"""Loads a real server on loopback: throughput with and without gathering, memory, and a kill with restart.

python benchmarks/serve_load.py                                  all of it; trains a small sine MAML first
python benchmarks/serve_load.py --parts load --seconds 10        one part, shorter
python benchmarks/serve_load.py --run runs/sine --parts kill     with a run of one's own
"""

import asyncio
import contextlib
import dataclasses
import json
import math
import os
import platform
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import tyro

RESULT = Path(__file__).resolve().parent / "results" / "serve-load.json"
_AGAIN = 0.5  # seconds before a client asks again
Part = Literal["load", "memory", "kill"]


@dataclasses.dataclass(frozen=True)
class Options:
    """64 clients that adapt tasks of 10 points of a sine wave, each one after the other on a connection kept open."""

    run: Path | None = None
    """A run on sine waves; trained if not given."""
    parts: tuple[Part, ...] = ("load", "memory", "kill")
    """What to measure."""
    seconds: float = 60.0
    """Time of each measurement of throughput."""
    clients: int = 64
    """Concurrent clients."""
    requests: int = 100_000
    """Requests for the measurement of memory."""
    steps: int | None = None
    """Gradient steps of each request (default: as in training)."""
    out: Path | None = RESULT
    """File for the figures."""
    client: str = ""
    """Used by the script itself: the process of the clients, for host:port/model."""
    count: int = 0
    """Used by the script itself: end after so many requests."""
    patient: bool = False
    """Used by the script itself: a service that is starting (503) is asked again, as it says, and no error."""


class Tally:
    """What the clients saw."""

    def __init__(self) -> None:
        self.milliseconds: list[float] = []
        self.errors: dict[str, int] = {}
        self.lost = 0
        self.refused = 0
        self.worse = 0
        self.told_to_wait = 0
        self.began = time.perf_counter()
        self.lost_at: list[float] = []
        self.over = False

    def error(self, what: str) -> None:
        """Counts an answer that is not what it should be."""
        self.errors[what] = self.errors.get(what, 0) + 1

    def told(self, seconds: float) -> dict[str, Any]:
        """The figures."""
        times = sorted(self.milliseconds)
        at = lambda share: round(times[min(len(times) - 1, math.ceil(share * len(times)) - 1)], 3) if times else None
        return {
            "requests": len(times), "seconds": round(seconds, 3), "requests_per_s": round(len(times) / seconds, 1),
            "p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "max_ms": at(1.0),
            "errors": sum(self.errors.values()), "error_kinds": self.errors, "loss_rose": self.worse,
            "lost_in_flight": self.lost,
            "lost_at_s": sorted(set(self.lost_at)),
            "told_to_wait": self.told_to_wait, "connections_refused": self.refused,
        }  # fmt: skip


class Talk(asyncio.Protocol):
    """One client's connection: it sends the next request when the last is answered."""

    _LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
    _LOSSES = re.compile(rb'"loss_after":([^,]+),.*"loss_before":([^,]+),')

    def __init__(self, tally: Tally, requests: list[bytes], begin: int, patient: bool):
        self._tally, self._requests, self._next, self._patient = tally, requests, begin, patient
        self._got, self._sent = b"", 0.0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Begins."""
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        """Takes an answer, perhaps in pieces, and sends the next request."""
        got = self._got = self._got + data if self._got else data
        end = got.find(b"\r\n\r\n")
        if end < 0:
            return
        said = self._LENGTH.search(got, 0, end)
        if said is None or len(got) < end + 4 + int(said[1]):
            return
        self._got = b""
        if self._patient and got.startswith(b"HTTP/1.1 503"):
            self._tally.told_to_wait += 1
            self._sent = 0.0
            asyncio.get_running_loop().call_later(_AGAIN, self._send)
            return
        self._note(got)
        if self._tally.over:
            self._sent = 0.0
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        """What was in flight is lost."""
        if self._sent > 0:
            self._tally.lost += 1
            self._tally.lost_at.append(round(time.perf_counter() - self._tally.began, 1))
        if not self.closed.done():
            self.closed.set_result(None)

    def _send(self) -> None:
        if self._tally.over or self._transport.is_closing():
            self._transport.close()
            return
        self._next = (self._next + 1) % len(self._requests)
        self._sent = time.perf_counter()
        self._transport.write(self._requests[self._next])

    def _note(self, got: bytes) -> None:
        if not got.startswith(b"HTTP/1.1 200"):
            self._tally.error(got[9:12].decode())
            return
        self._tally.milliseconds.append(1000 * (time.perf_counter() - self._sent))
        losses = self._LOSSES.search(got)
        if losses is None:
            self._tally.error("no losses")
        else:
            self._tally.worse += float(losses[1]) > float(losses[2])


async def talk(options: Options) -> dict[str, Any]:
    """All clients, until the time or the number of requests is over."""
    address, model = options.client.split("/", 1)
    host, port = address.rsplit(":", 1)
    tally, requests, loop = Tally(), bodies(address, model, options.steps), asyncio.get_running_loop()

    async def client(number: int) -> None:
        while not tally.over:
            try:
                made = lambda: Talk(tally, requests, number * 7, options.patient)
                _, talk = await loop.create_connection(made, host, int(port))
            except OSError:
                tally.refused += 1
                await asyncio.sleep(0.05)
                continue
            await talk.closed
            await asyncio.sleep(0 if tally.over else _AGAIN)  # a server that was killed takes a moment to be gone

    loop.add_signal_handler(signal.SIGTERM, lambda: setattr(tally, "over", True))
    began = time.perf_counter()
    clients = [asyncio.create_task(client(number)) for number in range(options.clients)]
    while not tally.over:
        await asyncio.sleep(0.05)
        passed = time.perf_counter() - began
        ended = len(tally.milliseconds) >= options.count if options.count else passed >= options.seconds
        tally.over = tally.over or ended
    spent = time.perf_counter() - began
    await asyncio.wait_for(asyncio.gather(*clients), 30)
    return tally.told(spent)


def bodies(address: str, model: str, steps: int | None) -> list[bytes]:
    """Requests of random sine tasks, ready to be sent."""
    rng, made = random.Random(0), []
    for _ in range(256):
        height, speed, shift = rng.uniform(0.1, 5), rng.uniform(0.8, 1.2), rng.uniform(0, math.pi)
        x = [rng.uniform(-5, 5) for _ in range(10)]
        y = [height * math.sin(speed * at - shift) for at in x]
        asked: dict[str, Any] = {"support": {"x": [[round(at, 4)] for at in x], "y": [[round(at, 4)] for at in y]}}
        body = json.dumps(asked | ({} if steps is None else {"steps": steps})).encode()
        head = (
            f"POST /v1/models/{model}/adapt HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        made.append(head.encode() + body)
    return made


class Server:
    """`fewstep serve` as a process of its own."""

    def __init__(self, run: Path, *options: str, port: int = 0):
        self.command = [sys.executable, "-m", "fewstep", "serve", str(run), "--log", "problems", *options]
        self._log = Path(tempfile.mkdtemp(prefix="serve-load-")) / "log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([*self.command, "--port", str(port)], stderr=log)
        self.port = self._until_ready()

    def rss(self) -> float:
        """Its memory in MB."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def cpu(self) -> float:
        """Seconds of processor time it has taken."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def answered(self) -> int:
        """The requests to adapt that it has granted."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            found = re.search(r'requests_total{route="adapt",status="200"} (\d+)', answer.read().decode())
        return int(found[1]) if found else 0

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Ends it; returns its exit code."""
        self.process.send_signal(how)
        return self.process.wait(60)

    def log(self) -> list[dict[str, Any]]:
        """Its log so far."""
        lines = self._log.read_bytes().splitlines()
        return [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]

    def _until_ready(self) -> int:
        for _ in range(3000):
            events = {line["event"]: line for line in self.log()}
            if "warm" in events:
                return int(events["listening"]["url"].rpartition(":")[2])
            if self.process.poll() is not None:
                raise SystemExit(f"The server ended: {self._log.read_text()[-2000:]}")
            time.sleep(0.1)
        raise SystemExit("The server did not get ready within five minutes.")


@contextlib.contextmanager
def serving(run: Path, *options: str) -> Iterator[Server]:
    """A server for a while; it must end with exit code 0."""
    server = Server(run, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None and (code := server.stop()):
            raise SystemExit(f"The server ended with {code}.")


def clients(server: Server, run: Path, options: Options, **more: Any) -> subprocess.Popen[bytes]:
    """The clients as a process of their own."""
    flags = [f"--{name}" for name, value in more.items() if value is True]
    more = {name: value for name, value in more.items() if value is not True}
    given = {
        "client": f"127.0.0.1:{server.port}/{run.name}",
        "clients": options.clients,
        "steps": options.steps,
        **more,
    }
    words = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    return subprocess.Popen([sys.executable, __file__, *words, *flags], stdout=subprocess.PIPE)


def outcome(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What the clients saw."""
    out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"The clients ended with {process.returncode}.")
    return json.loads(out)


def load(run: Path, options: Options) -> dict[str, Any]:
    """Throughput and latency with gathering and without: the same server, clients and requests."""
    made: dict[str, Any] = {}
    for name, gather in (("gathering", "2"), ("alone", "0")):
        with serving(run, "--gather-ms", gather) as server:
            outcome(clients(server, run, options, seconds=min(5.0, options.seconds)))  # to get going
            before = server.cpu()
            made[name] = outcome(clients(server, run, options, seconds=options.seconds))
            spent = 1000 * (server.cpu() - before) / max(1, made[name]["requests"])
            made[name]["server_cpu_ms_per_request"] = round(spent, 4)
            told = f"p99 {made[name]['p99_ms']} ms, {spent:.3f} ms of processor time each"
            print(f"{name}: {made[name]['requests_per_s']:.0f} requests/s, {told}")
    made["ratio"] = round(made["gathering"]["requests_per_s"] / made["alone"]["requests_per_s"], 2)
    print(f"gathering / alone: {made['ratio']}")
    return made


def memory(run: Path, options: Options) -> dict[str, Any]:
    """The server's memory while it answers many requests, with a cache of adapters that fills early."""
    with serving(run, "--adapters", "4096") as server:
        work, samples, began = clients(server, run, options, count=options.requests), [], time.perf_counter()
        while work.poll() is None:
            samples.append((round(time.perf_counter() - began, 1), round(server.rss(), 1)))
            time.sleep(0.5)
        seen = outcome(work)
    early = max(size for at, size in samples if at <= max(5.0, samples[-1][0] / 4))
    late = max(size for at, size in samples)
    print(f"memory: {samples[0][1]} MB at first, {early} MB in the first quarter, {late} MB at most")
    return {"first_mb": samples[0][1], "first_quarter_mb": early, "largest_mb": late,
            "samples": samples[:: max(1, len(samples) // 50)], **seen}  # fmt: skip


def kill(run: Path, options: Options) -> dict[str, Any]:
    """The server is killed under load and started anew: what is lost is what was in flight."""
    server, part = Server(run), min(options.seconds, 20.0) / 2
    work = clients(server, run, options, seconds=3600.0, patient=True)
    try:
        time.sleep(part)
        server.stop(signal.SIGKILL)
        began = time.perf_counter()
        server = Server(run, port=server.port)
        away = round(time.perf_counter() - began, 2)
        time.sleep(part)
    finally:
        work.send_signal(signal.SIGTERM)
    seen = outcome(work)
    after, code = server.answered(), server.stop()
    print(f"kill: {seen['lost_in_flight']} of {options.clients} lost, warm after {away} s, {after} answered after that")
    return {"seconds_away": away, "answered_after_restart": after, "exit_code_in_the_end": code, **seen}


def trained(folder: Path) -> Path:
    """A small sine MAML."""
    run = folder / "sine"
    command = ["train", "maml", "sinusoid", "--steps", "500", "--run", str(run), "--no-report"]
    subprocess.run([sys.executable, "-m", "fewstep", *command], check=True)
    return run


def main(options: Options) -> None:
    """Measures, prints and writes."""
    if options.client:
        print(json.dumps(_loop().run(talk(options))))
        return
    with tempfile.TemporaryDirectory() as folder:
        run = options.run or trained(Path(folder))
        work = {"load": load, "memory": memory, "kill": kill}
        measured: dict[str, Any] = {str(part): work[part](run, options) for part in options.parts}
    command = " ".join(["python benchmarks/serve_load.py", *sys.argv[1:]])
    told = {"name": "serve-load", "command": command, "clients": options.clients, "cores": os.cpu_count(),
            "python": platform.python_version(), "versions": _versions(), "commit": _commit(), **measured}  # fmt: skip
    if options.out is not None:
        options.out.write_text(json.dumps(told, indent=1) + "\n")


def _loop() -> Any:
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("fewstep", "jax", "starlette", "uvicorn", "msgspec")}


def _commit() -> str:
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
