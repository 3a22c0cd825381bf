"""What a client may send before its request is known, how many connections it may hold, and how long."""

import contextlib
import re
import socket
import sys
import time
from urllib.parse import urlsplit

import pytest
from serving import Kept, Process, ask, begun, raw, service, until

from fewstep.serve.http import server as http_server

pytestmark = pytest.mark.xdist_group("serve")
MIB = 1 << 20
HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
OWN, ALL = 12, 16


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return begun(tmp_path_factory.mktemp("serve"), "maml")


@pytest.fixture(scope="module")
def server(run):
    made = Process(run, "--connections", ALL, "--connections-per-client", OWN)
    made.wait("warm")
    yield made
    assert made.end() == 0


def memory(url):
    return int(float(re.search(r"^fewstep_resident_bytes (\S+)", ask(url, "GET", "/metrics")[1], re.MULTILINE)[1]))


def connect(url, source="127.0.0.1"):
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60, source_address=(source, 0))


def pour(url, begin, piece, most):
    """Sends a piece over and over; returns how many bytes went out before the other end closed, and what it said."""
    sent, others = len(begin), 0
    with connect(url) as connection:
        connection.sendall(begin)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < most:
                connection.sendall(piece)
                sent += len(piece)
                if sent // (8 * MIB) > others:
                    others += 1
                    assert ask(url, "GET", "/healthz")[0] == 200
        with contextlib.suppress(ConnectionResetError):
            return sent, connection.recv(65536)
    return sent, b""


CHUNKED = (
    b"POST /v1/models/maml/adapt HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize(
    ("begin", "piece", "status"),
    [
        (HEAD, b"a: " + b"b" * 4093 + b"\r\n", 431),
        (HEAD + b"a: ", b"b" * 65536, 431),
        (HEAD, b"a:b\r\n" * 10_000, 431),
        (b"GET /", b"b" * 65536, 414),
        (b"", b"\r\n" * 32768, 431),
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"a: " + b"b" * 4093 + b"\r\n", 431),
        (CHUNKED + b"2\r\n{}\r\n0\r\na: ", b"b" * 65536, 431),
    ],
    ids=["headers", "one header", "small headers", "line", "blank lines", "trailers", "one trailer"],
)
def test_a_head_without_end_is_cut_off_and_takes_no_memory(server, begin, piece, status):
    before = memory(server.url)
    sent, answer = pour(server.url, begin, piece, 120 * MIB)
    assert sent < 32 * MIB  # the rest are the buffers of the two sockets
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b'{"error":{"code":"' in answer
    assert b"connection: close" in answer
    assert memory(server.url) - before < 24 * MIB


def test_a_head_within_the_limit_passes_and_each_request_of_a_connection_has_its_own(server):
    long = b"a: " + b"b" * 60_000 + b"\r\n\r\n"
    with connect(server.url) as connection:
        for _ in range(3):
            connection.sendall(HEAD + long)
            answer = b""
            while not answer.endswith(b'{"status":"alive"}'):
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")
        connection.sendall(HEAD + b"c: " + b"b" * 6_000 + b"\r\n" + long)
        assert connection.recv(65536).startswith(b"HTTP/1.1 431")
        assert connection.recv(65536) == b""


@pytest.mark.parametrize(("count", "status"), [(90, 200), (101, 431)])
def test_headers_are_counted(server, count, status):
    answer = raw(server.url, HEAD + b"".join(b"a%d: b\r\n" % number for number in range(count - 1)) + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status)


def test_requests_behind_one_another_on_a_connection_are_few(server):
    before = memory(server.url)
    sent, answer = pour(server.url, b"", (HEAD + b"\r\n") * 2000, 60 * MIB)
    assert sent < 32 * MIB
    assert b"pipelined" in answer or answer.startswith(b"HTTP/1.1 200")
    assert memory(server.url) - before < 24 * MIB
    with connect(server.url) as connection:
        connection.sendall((HEAD + b"\r\n") * 3)
        got = b""
        while got.count(b"HTTP/1.1 200") < 3:
            got += connection.recv(65536)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no 127.0.0.2")
def test_connections_are_bounded_by_client_and_in_all(server):
    with contextlib.ExitStack() as opened:
        hold = lambda source: opened.enter_context(connect(server.url, source))
        for _ in range(OWN):
            hold("127.0.0.1")
        refused = hold("127.0.0.1").recv(65536)
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in refused
        assert b"127.0.0.1 has 12 connections" in refused
        other = hold("127.0.0.2")
        other.sendall(HEAD + b"\r\n")
        assert other.recv(65536).startswith(b"HTTP/1.1 200")
        for _ in range(ALL - OWN - 1):
            hold("127.0.0.2")
        assert hold("127.0.0.3").recv(65536).startswith(b"HTTP/1.1 503")

    def served():
        with contextlib.suppress(OSError):
            return ask(server.url, "GET", "/healthz")[0] == 200

    until(served)  # those that were closed count no more
    text = ask(server.url, "GET", "/metrics")[1]
    assert float(re.search(r"^fewstep_connections (\S+)", text, re.MULTILINE)[1]) >= 1
    assert 'fewstep_requests_total{route="other",status="503"}' in text


def test_a_head_that_trickles_in_is_not_waited_for(run, monkeypatch):
    monkeypatch.setattr(http_server, "_HEAD", 0.5)
    with service([run]) as (url, _), connect(url) as connection:
        connection.sendall(HEAD + b"a: ")
        connection.settimeout(0.05)
        ended = time.monotonic() + 30
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while True:
                assert time.monotonic() < ended, "it is still waited for"
                with contextlib.suppress(TimeoutError):
                    assert connection.recv(100) == b""
                    return
                connection.sendall(b"b")


@pytest.mark.slow  # it waits for real seconds
def test_a_client_that_reads_no_answers_is_not_waited_for(run, monkeypatch):
    monkeypatch.setattr(http_server, "_HEAD", 1.0)
    log = Kept()
    with service([run], seconds=1.0, log=log) as (url, made), socket.socket() as connection:
        until(lambda: made.warm)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((urlsplit(url).hostname, urlsplit(url).port))
        connection.setblocking(False)
        until(lambda: made.connections.total)
        ended = time.monotonic() + 60
        while made.connections.total:  # it asks often enough not to be idle, and so few at once that they may wait
            assert time.monotonic() < ended, "it is still waited for"
            with contextlib.suppress(OSError):
                connection.send(b"GET /docs HTTP/1.1\r\nhost: localhost\r\n\r\n" * 4)
            time.sleep(0.3)
    assert "error" not in [event for event, _ in log.events]
