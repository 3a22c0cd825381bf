"""The service as a process: how it starts, what it logs, how it stops, and mistakes on the command line."""

import json
import re
import socket
import sys
import threading

import pytest
from helpers import output
from serving import SINE, Process, ask, begin, begun, until

import fewstep.serve
from fewstep.serve import Client

pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return begun(tmp_path_factory.mktemp("serve"), "maml")


def busy(url):
    return int(re.search(r"^fewstep_busy_requests (\d+)", ask(url, "GET", "/metrics")[1], re.MULTILINE)[1])


def listens(url):
    host, port = url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=30).close()
    except OSError:
        return False
    return True


def test_it_finishes_what_it_began_and_ends_with_0(run):
    server = Process(run, "--gather-ms", "400")
    with Client(server.url) as client:
        client.adapt("maml", **SINE)
    # Seven requests are begun by half: their ends come when the service is already stopping.
    body, codes = json.dumps({"support": SINE, "steps": 100}).encode(), []
    halves = [begin(server.url, "/v1/models/maml/adapt", body[:10], length=len(body)) for _ in range(7)]
    until(lambda: busy(server.url) == 7)
    ending = threading.Thread(target=lambda: codes.append(server.end()))
    ending.start()
    until(lambda: not listens(server.url))
    for half in halves:
        half.sendall(body[10:])
    for half in halves:
        with half:
            assert half.recv(65536).startswith(b"HTTP/1.1 200")
    ending.join()
    assert codes == [0]
    with pytest.raises(OSError, match="refused"):
        ask(server.url, "GET", "/healthz")
    events = [told["event"] for told in server.events]
    assert events[0] == "listening"
    assert events[-1] == "stopped"
    logged = [told for told in server.events if told["event"] == "request"]
    assert {told["status"] for told in logged} == {200}
    assert logged[0].keys() >= {"time", "method", "path", "status", "milliseconds", "client"}


def test_mistakes_are_one_clear_line_and_exit_code_2(run, capsys, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for args, told in (
            ((run, "--port", port), "Cannot listen on 127.0.0.1"),
            ((tmp_path / "never",), "There is no run folder"),
            (("omniglot-mtnet-5wya",), "Did you mean the package's model"),
            ((), "There is nothing to serve"),
            ((run, run), "Two runs are named maml"),
            ((run, "--runs", tmp_path / "never"), "There is no folder"),
            ((run, "--port", "70000"), "from 0 to 65535"),
            ((run, "--gather-ms", "-1"), "from 0 to 1000"),
            ((run, "--seconds", "0"), "must be above 0"),
            ((run, "--connections", "0"), "must be above 0"),
            ((run, "--token", ""), "--token is empty"),
            ((run, "--host", "0.0.0.0", "--token", " "), "--token is empty"),
            ((run, "--allow-host", "http://a.example"), "a name without a port, such as example.org"),
            ((run, "--host", "256.0.0.1"), "The host must be an address of this machine"),
            ((run, "--body-mb", "nan"), "--body-mb is nan. Give megabytes above 0"),
            ((run, "--cors", "notanorigin"), "--cors is 'notanorigin'. Give origins of pages"),
        ):
            code, out, error = output(capsys, "serve", *args)
            assert (code, out) == (2, "")
            assert told in error
            assert "Traceback" not in error


def test_an_empty_token_of_the_environment_lets_nobody_in(run, capsys, monkeypatch):
    monkeypatch.setenv("FEWSTEP_TOKEN", "")
    code, _, error = output(capsys, "serve", run)
    assert code == 2
    assert "FEWSTEP_TOKEN is empty" in error


def test_without_the_extra_it_says_what_to_install(run, capsys, monkeypatch):
    monkeypatch.setattr(fewstep, "serve", fewstep.serve)  # so that other tests get back the module they know
    for name in [name for name in sys.modules if name.startswith(("fewstep.serve", "starlette"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.exceptions", None)
    code, _, error = output(capsys, "serve", run)
    assert code == 2
    assert "pip install 'fewstep[serve]'" in error
