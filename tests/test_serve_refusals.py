"""What the service refuses, and that it goes on: limits, tokens, malformed bodies, and the end."""

import asyncio
import dataclasses
import gzip
import json
import random
import re
import threading
import time
from collections import deque

import pytest
from serving import SINE, Kept, ask, begin, begun, hold, raw, service, until

from fewstep.serve import Client, Limits, Log, Service, ServiceError
from fewstep.serve.errors import Refusal
from fewstep.serve.http import server
from fewstep.serve.http.access import Access

pytestmark = pytest.mark.xdist_group("serve")
ADAPT = "/v1/models/maml/adapt"
WRONG = ("Bearer wrong", "Bearer secret2", "Bearer", "Basic secret", "secret", "Bearer \xff", "bearer SECRET")
GUARDED = ("/v1/models", "/v1/runs", "/v1/nothing", "/nothing", "/metrics", "/docs", "/openapi.json")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return begun(tmp_path_factory.mktemp("serve"), "maml")


@pytest.fixture(scope="module")
def tight(run):
    """A service with little room."""
    room = {"body": 20_000, "points": 8, "queries": 4, "steps": 20, "samples": 3, "adapters": 3}
    with service([run], **room) as (url, made):
        yield url, made


@pytest.fixture
def limit(tight, monkeypatch):
    """Changes limits for a while."""
    change = lambda **new: monkeypatch.setattr(tight[1], "limits", dataclasses.replace(tight[1].limits, **new))
    yield change
    until(lambda: not tight[1].busy)


BAD = {
    "": (400, "bad_json"),
    "{": (400, "bad_json"),
    "\xff\xfe": (400, "bad_json"),
    "nan": (400, "bad_json"),
    '{"support": {"x": [[NaN]], "y": [[1]]}}': (400, "bad_json"),
    "[" * 5000: (422, "bad_request"),
    '{"support": {"x": ' + "[" * 2000 + "]" * 2000 + "}}": (422, "bad_request"),
    "[]": (422, "bad_request"),
    "{}": (422, "bad_request"),
    '{"support": {}}': (422, "no_x"),
    '{"support": {"x": [[1]]}}': (422, "no_y"),
    '{"support": {"x": [], "y": []}}': (422, "no_rows"),
    '{"support": {"x": [[]], "y": [[1]]}}': (422, "wrong_shape"),
    '{"support": {"x": [[1]], "y": [[1], [2]]}}': (422, "unequal_rows"),
    '{"support": {"x": [[1, 2]], "y": [[1]]}}': (422, "wrong_shape"),
    '{"support": {"x": [[1], [1, 2]], "y": [[1], [2]]}}': (422, "ragged"),
    '{"support": {"x": [[[1]]], "y": [[1]]}}': (422, "wrong_shape"),
    '{"support": {"x": [["1"]], "y": [[1]]}}': (422, "bad_request"),
    '{"support": {"x": [[1e39]], "y": [[1]]}}': (422, "not_finite"),
    '{"support": {"x": [[1e999]], "y": [[1]]}}': (422, "bad_request"),
    '{"support": {"x": [[1]], "y": [[1]]}, "steps": 21}': (422, "too_many_steps"),
    '{"support": {"x": [[1]], "y": [[1]]}, "steps": -1}': (422, "bad_request"),
    '{"support": {"x": [[1]], "y": [[1]]}, "steps": 1e99}': (422, "bad_request"),
    '{"support": {"x": [[1]], "y": [[1]]}, "samples": 4}': (422, "too_many_samples"),
    '{"support": {"x": [[1]], "y": [[1]]}, "pace": 11}': (422, "bad_request"),
    '{"support": {"x": [[1]], "y": [[1]]}, "seed": 4294967296}': (422, "bad_request"),
    '{"support": {"x": [[1]], "y": [[1]]}, "color": 1}': (422, "bad_request"),
    '{"support": {"images": ["file:///etc/passwd"], "labels": ["a"]}}': (422, "does_not_apply"),
    '{"support": {"columns": {"a": [1]}}}': (422, "does_not_apply"),
    json.dumps({"support": {"x": [[1]] * 9, "y": [[1]] * 9}}): (422, "too_many_points"),
}


@pytest.mark.parametrize("body", BAD, ids=lambda body: body[:40])
def test_a_body_that_does_not_fit_is_told_why(tight, body):
    status, told, _ = ask(tight[0], "POST", ADAPT, body.encode("latin-1"))
    assert (status, told["error"]["code"]) == BAD[body]
    assert told["error"]["message"].endswith(".")


def test_a_prediction_needs_one_way_to_learn_and_a_query(tight):
    path, known = "/v1/models/maml/predict", {"support": SINE, "query": {"x": [[1.0]]}}
    assert ask(tight[0], "POST", path, known)[0] == 200
    for change, code in (
        ({"support": None}, "no_support"),
        ({"adapter": "x"}, "does_not_apply"),
        ({"query": {}}, "no_x"),
        ({"query": {"x": [[1.0]] * 5}}, "too_many_queries"),
    ):
        status, told, _ = ask(tight[0], "POST", path, known | change)
        assert (status, told["error"]["code"]) == (422, code)
    plain = ask(tight[0], "POST", ADAPT, {"support": SINE})[1]["adapter"]
    status, told, _ = ask(tight[0], "POST", path, {"adapter": plain, "query": {"x": [[1.0]]}, "detail": True})
    assert (status, told["error"]["code"]) == (422, "no_detail")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", ADAPT, 405),
        ("DELETE", "/v1/models", 405),
        ("POST", "/v1/models/never/adapt", 404),
        ("POST", "/v1/models/maml/fly", 404),
        ("POST", "/v1/models/%2e%2e%2fmaml/adapt", 404),
        ("GET", "/v1/models/..%2f..%2fetc%2fpasswd", 404),
        ("DELETE", "/v1/models/maml/adapters/..%2f..", 404),
        ("GET", "/static/..%2f_app.py", 404),
        ("GET", "/static/../_app.py", 404),
        ("PATCH", ADAPT, 405),
    ],
)
def test_what_is_not_there(tight, method, path, status):
    got, told, _ = ask(tight[0], method, path)
    assert got == status
    assert told["error"]["message"]


def test_other_types_than_json_are_refused_so_that_no_other_web_page_can_ask(tight):
    assert ask(tight[0], "POST", ADAPT, {"support": SINE}, content_type="text/plain")[0] == 415
    body = json.dumps({"support": SINE}).encode()
    host = tight[0].removeprefix("http://")
    answer = raw(
        tight[0], f"POST {ADAPT} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    )
    assert answer.startswith(b"HTTP/1.1 415")
    assert b"The body has no content-type. Send JSON" in answer


def test_another_host_is_refused_before_anything_is_read(tight):
    """A page of evil.example may point that name at this machine; the browser then still asks for evil.example."""
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "", "x:y"):
        for method, path in (("GET", "/"), ("GET", "/v1/models"), ("POST", ADAPT), ("GET", "/healthz")):
            status, told, _ = ask(tight[0], method, path, host=host)
            assert (status, told["error"]["code"]) == (421, "wrong_host")
    assert (
        "'evil.example', and this service answers only for localhost, 127.0.0.1, [::1]"
        in (ask(tight[0], "GET", "/", host="evil.example:80")[1]["error"]["message"])
    )
    answer = raw(tight[0], f"POST {ADAPT} HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 9\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 421")
    assert raw(tight[0], b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 421")
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]", "[::1]:8000"):
        assert ask(tight[0], "GET", "/healthz", host=host)[0] == 200


@pytest.mark.parametrize(
    ("bound", "named", "host", "passes"),
    [
        ("127.0.0.1", (), "a.example", False),
        ("127.0.0.1", ("a.example",), "A.example:80", True),
        ("127.0.0.1", ("a.example",), "b.example", False),
        ("127.0.0.2", (), "127.0.0.2:80", True),
        ("::1", (), "a.example", False),
        ("::ffff:127.0.0.1", (), "a.example", False),
        ("0.0.0.0", (), "a.example", True),
        ("::", (), "a.example", True),
        ("0.0.0.0", ("a.example",), "b.example", False),
        ("0.0.0.0", ("a.example",), "localhost", True),
        ("192.0.2.1", ("a.example",), "192.0.2.1:80", True),
    ],
)
def test_which_hosts_are_answered_for(bound, named, host, passes):
    access = Access(hosts=named)
    access.bind(bound)
    scope = {"method": "GET", "headers": [(b"host", host.encode())]}
    if passes:
        access.check(scope)
        return
    with pytest.raises(Refusal, match="--allow-host") as error:
        access.check(scope)
    assert error.value.status == 421


@pytest.mark.parametrize(("method", "path"), [("POST", ADAPT), ("DELETE", "/v1/models/maml/adapters/x")])
def test_a_page_of_another_origin_changes_nothing(tight, method, path):
    own = tight[0].removeprefix("http://")
    for origin in ("https://a.example", "null", "http://localhost:1", f"http://{own}0", f"http://a.example/{own}"):
        status, told, _ = ask(tight[0], method, path, {"support": SINE}, origin=origin)
        assert (status, told["error"]["code"]) == (403, "wrong_origin")
    for origin in (tight[0], f"https://{own}"):  # a proxy in front may speak TLS
        assert ask(tight[0], method, path, {"support": SINE}, origin=origin)[0] in (200, 404)
    assert ask(tight[0], "GET", "/healthz", origin="https://a.example")[0] == 200


def test_a_body_over_the_limit_is_refused_before_it_is_read(tight):
    head = f"POST {ADAPT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    answer = raw(tight[0], f"{head}content-length: 99999999999\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"body_too_large" in answer
    assert b"connection: close" in answer
    piece = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    assert raw(tight[0], f"{head}transfer-encoding: chunked\r\n\r\n".encode() + 2 * piece).startswith(b"HTTP/1.1 413")


def test_a_body_that_unfolds_into_much_is_not_unfolded(tight):
    for piece in ("[],", "1,"):
        body = '{"support": {"x": [' + piece * (19_000 // len(piece)) + "1]}}"
        status, told, _ = ask(tight[0], "POST", ADAPT, body.encode())
        assert (status, told["error"]["code"]) == (422, "too_many_values")


def test_a_body_that_does_not_come_is_not_waited_for(tight, limit):
    limit(seconds=0.5)
    began = time.monotonic()
    with begin(tight[0], ADAPT, b"{", length=100) as half:
        answer = half.recv(65536)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"slow_body" in answer
    assert time.monotonic() - began > 0.4


def test_the_time_is_that_of_the_whole_request(run):
    """A body that takes most of the time leaves little for the work."""
    made, sent = Service([run], Limits(seconds=0.5), log=Log("problems")), []

    async def work(client, served, body):
        await asyncio.sleep(0.3)
        return b"{}"

    async def receive():
        await asyncio.sleep(0.3)
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    made.ready, made._short_paths["/slow"] = True, ("adapt", work, made.models["maml"])
    asyncio.run(made({"type": "http", "method": "POST", "path": "/slow", "headers": headers}, receive, send))
    made.scheduler.stop()
    assert sent[0]["status"] == 503


def test_a_task_is_drawn_in_time_or_not_at_all(tight, limit, monkeypatch):
    held = threading.Event()
    monkeypatch.setattr(tight[1].endpoints._drawer, "draw", lambda *asked: held.wait(60))
    limit(seconds=1.0)
    try:
        status, told, _ = ask(tight[0], "POST", "/v1/models/maml/task", {})
    finally:
        held.set()
    assert (status, told["error"]["code"]) == (503, "out_of_time")


def test_a_drawn_task_keeps_to_the_limit_of_points(tight):
    assert ask(tight[0], "POST", "/v1/models/maml/task", {"shots": 8})[0] == 200
    status, told, _ = ask(tight[0], "POST", "/v1/models/maml/task", {"shots": 9})
    assert (status, told["error"]["code"]) == (422, "too_many_points")


def test_a_connection_on_which_no_request_comes_is_closed(tight, monkeypatch):
    monkeypatch.setattr(server, "_HEAD", 0.2)
    for begun_with in (b"", b"GET /healthz HTTP/1.1\r\nhost: loc"):
        assert raw(tight[0], begun_with, seconds=60) == b""
    answered = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    assert raw(tight[0], answered, seconds=60).startswith(b"HTTP/1.1 200")


def test_the_client_hears_why_a_body_was_not_read(tight):
    with Client(tight[0]) as client:
        for _ in range(2):
            with pytest.raises(ServiceError, match="the limit is 20000") as error:
                client.adapt("maml", x=[[0.5]] * 1_000_000, y=[])
            assert (error.value.status, error.value.code) == (413, "body_too_large")
        assert client.adapt("maml", **SINE)["adapter"]


def test_an_evicted_adapter_is_gone_and_says_how_to_get_it_back(tight):
    with Client(tight[0]) as client:
        first, *_, last = [client.adapt("maml", **SINE)["adapter"] for _ in range(5)]
        assert client.predict("maml", adapter=last, x=[[1.0]])["y"]
        with pytest.raises(ServiceError, match="Send the support set to /adapt again") as error:
            client.predict("maml", adapter=first, x=[[1.0]])
        assert (error.value.status, error.value.code) == (410, "adapter_gone")
    assert len(tight[1].adapters) == 3


@pytest.mark.slow
def test_an_adapter_expires_when_it_is_not_used(run):
    with service([run], adapter_seconds=2.0, adapter_bytes=10_000) as (url, made), Client(url) as client:
        told = client.adapt("maml", **SINE)
        assert told["expires_in"] == 2.0
        for _ in range(3):  # use keeps it alive
            time.sleep(0.8)
            client.predict("maml", adapter=told["adapter"], x=[[1.0]])
        until(lambda: (len(made.adapters), made.adapters.bytes) == (0, 0))
        with pytest.raises(ServiceError) as error:
            client.predict("maml", adapter=told["adapter"], x=[[1.0]])
        assert error.value.status == 410
        most = [client.adapt("maml", **SINE) and made.adapters.bytes for _ in range(200)]
        assert max(most) <= 10_000
        assert len(made.adapters) < 200


def test_what_adapters_take_is_counted_and_their_examples_are_not_kept(tight):
    made = tight[1].adapters
    made._entries.clear()
    made.bytes = 0
    for detail in (False, True):
        ask(tight[0], "POST", ADAPT, {"support": SINE, "detail": detail})
    plain, shown = (entry.adaptation for entry in made._entries.values())
    assert plain.points == 5
    assert not any(getattr(part, "shape", (0,))[0] == 5 for part in plain)
    moved, units = shown.change
    assert (plain.nbytes, shown.nbytes - plain.nbytes) == (plain.rows.nbytes, moved.nbytes + units.nbytes)
    assert all(part.base is None for part in (shown.rows, moved, units))  # no part of a larger array
    assert made.bytes == plain.nbytes + shown.nbytes


def test_too_many_at_once_and_work_that_takes_too_long(tight, limit):
    url, made = tight
    until(lambda: made.warm)  # or the worker might be held by what is still compiling
    limit(requests=1)
    with begin(url, ADAPT, length=9):
        until(lambda: made.busy)
        status, told, head = ask(url, "POST", ADAPT, {"support": SINE})
        assert (status, told["error"]["code"], head["retry-after"]) == (429, "too_many_requests", "1")
    until(lambda: not made.busy)
    held = threading.Event()
    hold(made, held)  # the worker is busy with something else
    limit(seconds=1.0)
    try:
        status, told, _ = ask(url, "POST", ADAPT, {"support": SINE})
        assert (status, told["error"]["code"]) == (503, "out_of_time")
    finally:
        held.set()
    limit(seconds=120.0)
    assert ask(url, "POST", ADAPT, {"support": SINE})[0] == 200


def test_without_the_token_nothing_is_told(run):
    with service([run], token="secret", cors=("https://a.example",)) as (url, _):
        for method, path in (("POST", ADAPT), *(("GET", path) for path in GUARDED)):
            for given in ({}, *({"authorization": word} for word in WRONG)):
                status, told, head = ask(url, method, path, {}, **given)
                assert (status, told["error"]["code"]) == (401, "no_token")
                assert head["www-authenticate"] == "Bearer"
        for path in ("/", "/healthz", "/readyz", "/docs.css"):
            assert ask(url, "GET", path)[0] == 200
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert ask(url, "GET", "/metrics", authorization=f"{scheme} secret")[0] == 200
        with Client(url, token="secret") as client:
            assert client.adapt("maml", **SINE)["adapter"]
        own = ask(url, "GET", "/healthz", origin="https://a.example")[2]
        assert own["access-control-allow-origin"] == "https://a.example"
        assert "access-control-allow-origin" not in ask(url, "GET", "/healthz", origin="https://b.example")[2]
        status, _, head = ask(url, "OPTIONS", ADAPT, origin="https://a.example")
        assert (status, head["access-control-allow-headers"]) == (204, "authorization, content-type")
        secret = {"authorization": "Bearer secret"}
        for origin, status in (("https://a.example", 200), ("https://b.example", 403)):
            assert ask(url, "POST", ADAPT, {"support": SINE}, origin=origin, **secret)[0] == status
        told = ask(url, "GET", "/openapi.json", **secret)[1]
        assert told["components"]["securitySchemes"].keys() == {"token"}
        assert [path for path, some in told["paths"].items() if "security" not in str(some)] == ["/healthz", "/readyz"]


def test_metrics_and_descriptions_need_no_token_if_they_are_public(run):
    with service([run], token="secret", public=("metrics", "docs")) as (url, _):
        for path in ("/metrics", "/docs", "/openapi.json"):
            assert ask(url, "GET", path)[0] == 200
        assert "security" not in ask(url, "GET", "/openapi.json")[1]["paths"]["/metrics"]["get"]
        assert ask(url, "GET", "/v1/models")[0] == 401


def test_a_body_that_is_compressed_is_refused(tight):
    body = json.dumps({"support": SINE}).encode()
    for encoding, sent in (("gzip", gzip.compress(body)), ("GZIP", body), ("identity, br", body), ("x", body)):
        status, told, _ = ask(tight[0], "POST", ADAPT, sent, content_encoding=encoding)
        assert (status, told["error"]["code"]) == (415, "encoded_body")
        assert f"{encoding!r}" in told["error"]["message"]
    for encoding in ("identity", "Identity", ""):
        assert ask(tight[0], "POST", ADAPT, body, content_encoding=encoding)[0] == 200


def test_no_other_origin_is_allowed_unless_asked(tight):
    head = ask(tight[0], "GET", "/healthz", origin="https://a.example")[2]
    assert not any(name.startswith("access-control") for name in head)
    assert ask(tight[0], "OPTIONS", ADAPT, origin="https://a.example")[0] == 405


def test_what_uvicorn_says_is_in_the_log_too(tight, monkeypatch, capfd):
    log = Kept()
    monkeypatch.setattr(tight[1].log, "event", log.event)
    assert raw(tight[0], b"what\r\n\r\n").startswith(b"HTTP/1.1 400")
    until(lambda: log.events)
    assert log.events == [("server", {"level": "warning", "message": "Invalid HTTP request received."})]
    assert capfd.readouterr().err == ""


class Busy(deque):
    """Lines to which another thread adds one while they are read."""

    def __init__(self):
        super().__init__()
        self.late = [b'{"event":"late"}']

    def popleft(self):
        line = super().popleft()
        self.extend([self.late.pop()] if self.late else [])
        return line

    def __iter__(self):
        yield from [self[number] for number in range(len(self))]
        self.extend([self.late.pop()] if self.late else [])


def test_no_line_of_the_log_is_lost_that_comes_while_others_are_written(capsys):
    log = Log()
    log._lines = Busy()
    log.event("first")
    log.flush()
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["first", "late"]


def test_an_open_door_is_told():
    for host, token, told in (("127.0.0.1", None, 0), ("0.0.0.0", "secret", 0), ("0.0.0.0", None, 1)):
        log = Kept()
        with server.listen(host, 0) as listening:
            server._bind(Service([], token=token, log=log), listening)
        assert [event for event, _ in log.events] == ["warning"] * told
    assert re.search(r"Whoever reaches 0.0.0.0:\d+ may use this service, .* Set one with --token", str(log.events))


def test_a_second_signal_begins_nothing_more(monkeypatch):
    made, stopped = Service([], log=Kept()), []
    uvicorn_server = server._Server(made, 1.0)
    monkeypatch.setattr(made.scheduler, "stop", lambda: stopped.append(True))
    server._stop(uvicorn_server, made)
    assert (uvicorn_server.should_exit, uvicorn_server.force_exit, stopped) == (True, False, [])
    server._stop(uvicorn_server, made)
    assert (uvicorn_server.should_exit, uvicorn_server.force_exit, stopped) == (True, True, [True])


def malformed(count):
    """Good bodies with something broken in them, and noise."""
    rng = random.Random(1)
    good = [json.dumps({"support": SINE, "steps": 3}), json.dumps({"support": SINE, "query": {"x": [[1.0]]}})]
    pieces = ["[", "]", "{", "}", '"', "null", "1e400", "-", "\\u0000", "\x00", "\xff", ",", ":", "true", "[[[[[["]
    for _ in range(count):
        body = rng.choice(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(body))
            body = rng.choice([
                body[:at], body[:at] + rng.choice(pieces) + body[at:], body[:at] + body[at + rng.randint(1, 9) :],
                body.replace(rng.choice(["x", "y", "support", "steps", "1.0"]), rng.choice(pieces), 1),
            ]) or "x"  # fmt: skip
        yield body.encode("latin-1") if rng.random() < 0.9 else rng.randbytes(rng.randint(0, 300))


def survive(url, count):
    """Sends malformed bodies on one connection; returns the statuses and the time of good requests before and after."""

    def usual(client):
        begin = time.perf_counter()
        for _ in range(30):
            client.adapt("maml", **SINE)
        return time.perf_counter() - begin

    with Client(url) as client:
        usual(client)
        before, seen = usual(client), set()
        for number, body in enumerate(malformed(count)):
            path = ("/v1/models/maml/adapt", "/v1/models/maml/predict")[number % 2]
            client._connection.request("POST", path, body, {"content-type": "application/json"})
            answer = client._connection.getresponse()
            answer.read()
            seen.add(answer.status)
        return seen, before, min(usual(client) for _ in range(3))


def test_malformed_bodies_leave_it_alive(tight):
    seen, _, _ = survive(tight[0], 300)
    assert seen <= {200, 400, 422}
    assert {400, 422} <= seen


@pytest.mark.slow
def test_ten_thousand_malformed_bodies_leave_it_as_quick_as_before(tight):
    seen, before, after = survive(tight[0], 10_000)
    assert seen <= {200, 400, 422}
    assert after < 2 * before + 0.1
