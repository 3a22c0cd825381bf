"""One client cannot starve the rest: cheap requests beside many expensive ones, and clients beside each other."""

import http.client
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from urllib.parse import urlsplit

import pytest
from serving import SINE, Process, begun, hold, service, sine, until

from fewstep.serve.batching.lanes import CALL, QUICK, Costs, Shares
from fewstep.serve.http.clients import client_name

pytestmark = pytest.mark.xdist_group("serve")
ADAPT = "/v1/models/mtnet/adapt"
CHEAP = {"support": SINE}
HEAVY = {"support": sine(1, 256), "steps": 100, "samples": 64}
FAST = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}  # as quick as a user's
linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no 127.0.0.2")


def send(url, body, source="127.0.0.1"):
    """The status of an answer, its headers, and how long it took; asked from an address of its own."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=150, source_address=(source, 0))
    began = time.monotonic()
    connection.request("POST", ADAPT, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.headers, time.monotonic() - began


@pytest.fixture
def server(tmp_path):
    run = begun(tmp_path, "mtnet", hidden=(40, 40), inner_lr=1e-4)  # so small that 100 steps do not diverge
    made = Process(run, "--seconds", "100", "--log", "problems", "--gather-max", "4", env=FAST)
    made.wait("warm")
    yield made
    assert made.end() == 0


@pytest.mark.slow
def test_a_cheap_request_is_answered_beside_24_of_the_largest(server):
    for body in (CHEAP, HEAVY):  # compiles
        assert send(server.url, body)[0] == 200
    cheap, statuses = [], []
    heavy = [threading.Thread(target=lambda: statuses.append(send(server.url, HEAVY))) for _ in range(24)]
    for thread in heavy:
        thread.start()
    while any(thread.is_alive() for thread in heavy):
        status, _, seconds = send(server.url, CHEAP)
        assert status == 200
        cheap.append(seconds)
    assert len(cheap) >= 5
    assert median(cheap) < 1
    assert {status for status, _, _ in statuses} <= {200, 429}
    assert 200 in {status for status, _, _ in statuses}
    assert all(int(headers["retry-after"]) >= 1 for status, headers, _ in statuses if status == 429)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A service with a backlog of next to nothing, whose kinds of work are compiled."""
    with service([begun(tmp_path_factory.mktemp("serve"), "mtnet")], backlog=0.001) as (url, made):
        until(lambda: made.warm)
        for body in (CHEAP, CHEAP | {"steps": 100}, HEAVY):
            assert send(url, body)[0] == 200
        until(lambda: not made.busy)
        yield url, made


def calm(made):
    """Brings the costs to those of a quiet machine, however long calls took on this one."""
    for kind in list(made.scheduler.costs._seconds):
        for _ in range(10):
            made.scheduler.costs.measure(kind, 5 * QUICK if getattr(kind.work, "rows", 0) >= 256 else QUICK / 10)


def in_order(small, *groups):
    """Sends groups of requests while the workers are busy with something else, one group after the other; returns the
    group of each answer, as they came. A group is a number, a body and an address."""
    url, made = small
    held, order = threading.Event(), []
    calm(made)
    hold(made, held)

    def one(group, body, source):
        assert send(url, body, source)[0] == 200
        order.append(group)

    with ThreadPoolExecutor(32) as pool:
        answers, sent = [], 0
        for group, (count, body, source) in enumerate(groups):
            answers += [pool.submit(one, group, body, source) for _ in range(count)]
            sent += count
            until(lambda sent=sent: made.scheduler.batcher.waiting >= sent - 4)  # the first ones are with the worker
        until(lambda: made.busy == sent)
        held.set()
        for answer in answers:
            answer.result()
    return order


@linux
def test_clients_take_turns(small):
    order = in_order(small, (24, CHEAP, "127.0.0.1"), (2, CHEAP, "127.0.0.2"))
    assert order[12:].count(1) == 0


def test_kinds_of_work_of_one_client_take_turns(small):
    order = in_order(small, (24, CHEAP | {"steps": 100}, "127.0.0.1"), (1, CHEAP, "127.0.0.1"))
    assert order.index(1) < 12


@linux
def test_work_that_waits_is_bounded_by_client_and_cheap_work_is_not_counted(small):
    url, made = small
    held = threading.Event()
    calm(made)
    hold(made, held)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(send, url, HEAVY)
        until(lambda: made.busy == 1)
        until(lambda: made.scheduler._backlog._waiting)
        status, headers, _ = send(url, HEAVY)
        assert (status, headers["retry-after"]) == (429, "1")
        others = [pool.submit(send, url, CHEAP), pool.submit(send, url, HEAVY, "127.0.0.2")]
        until(lambda: made.busy == 3)
        held.set()
        assert [each.result()[0] for each in (first, *others)] == [200] * 3
    assert made.scheduler._backlog._waiting == {}


def test_a_call_holds_as_many_tasks_as_can_be_done_in_its_time(small):
    scheduler = small[1].scheduler
    kind = next(kind for kind in scheduler.costs._seconds if kind.steps == 1)
    assert scheduler._choose_call(kind, 4).size == 4
    for _ in range(5):
        scheduler.costs.measure(kind, 0.6 * CALL)
    assert scheduler._choose_call(kind, 4).size == 1


def test_costs_are_guessed_and_then_measured_whatever_a_single_call_takes():
    costs = Costs(lambda kind: 7.0)
    assert costs.of("a") == 7.0
    for seconds in (1.0, 1.0, 50.0, 1.0, 1.0):
        costs.measure("a", seconds)
        assert costs.of("a") == 1.0


def test_a_newcomer_begins_with_the_least_of_the_others():
    shares = Shares()
    shares.charge("a", 5.0)
    shares.charge("b", 2.0)
    assert [shares.of(name) for name in "abc"] == [5.0, 7.0, 5.0]
    shares.keep(["b"])
    assert shares.of("a") == 7.0


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::2:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_a_client_is_an_address_or_a_network_of_ipv6(host, name):
    assert client_name(host) == name
