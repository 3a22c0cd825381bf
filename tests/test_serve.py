"""The service, asked over real sockets: every route, what it answers, and that it agrees with the library."""

import contextlib
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from serving import SINE, ask, begun, hold, service, sine, until

from fewstep.files import LOCK, locked
from fewstep.models import adapt
from fewstep.runs import load
from fewstep.serve import Client, ServiceError, run_listing
from fewstep.serve.run_listing import list_runs
from fewstep.tasks import batch

pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    return [begun(folder, rule) for rule in ("maml", "mtnet")]


@pytest.fixture(scope="module")
def url(runs):
    with service(runs, watch=runs[0].parent) as (url, _):
        yield url


@pytest.fixture
def client(url):
    with Client(url, seconds=150) as made:
        yield made


def test_models_tell_what_a_client_needs(client):
    assert [model["name"] for model in client.models()] == ["maml", "mtnet"]
    told = client.model("mtnet")
    assert (told["kind"], told["rule"], told["tasks"], told["masked"]) == ("curve", "mtnet", "sinusoid", True)
    assert (told["x_width"], told["y_width"], told["image"], told["ways"]) == (1, 1, None, None)
    assert (told["shots"], told["inner_steps"], told["steps_trained"], told["seeds"]) == (10, 1, 0, 1)
    assert told["x_range"] == [-5, 5]
    assert told["y_range"][0] < -4
    assert told["layers"] == [{"name": "dense_0", "units": 6}, {"name": "dense_1", "units": 1}]
    assert told["limits"].keys() == {"points", "queries", "steps", "samples", "ways", "work"}


@pytest.mark.parametrize("rule", ["maml", "mtnet"])
@pytest.mark.parametrize("steps", [None, 5])
def test_predictions_are_those_of_the_library_by_id_and_inline(client, runs, rule, steps):
    query = [[-3.0], [0.0], [2.5]]
    made = client.adapt(rule, **SINE, steps=steps, seed=3)
    assert made["loss_after"] < made["loss_before"]
    assert made["milliseconds"] > 0
    by_id = client.predict(rule, adapter=made["adapter"], x=query)
    inline = client.predict(rule, **SINE, steps=steps, seed=3, query={"x": query})
    assert by_id["y"] == inline["y"]
    assert by_id["loss_after"] == inline["loss_after"] == made["loss_after"]
    (path,) = (run for run in runs if run.name == rule)
    known = adapt(load(path), batch(SINE["x"], SINE["y"]), steps=steps, seed=3).answer(np.asarray(query)).mean
    np.testing.assert_allclose(by_id["y"], known, rtol=1e-5, atol=1e-5)


def test_no_steps_leave_the_network_as_it_is_and_more_steps_go_further(client):
    losses = [client.adapt("maml", **SINE, steps=steps)["loss_after"] for steps in (0, 1, 10, 50)]
    assert losses[0] == client.adapt("maml", **SINE)["loss_before"]
    assert losses == sorted(losses, reverse=True)


def test_the_pace_multiplies_the_step(client):
    slow, usual, fast = (client.adapt("maml", **SINE, pace=pace, detail=True) for pace in (0.5, 1.0, 2.0))
    moved = [[layer["moved"] for layer in made["detail"]["layers"]] for made in (slow, usual, fast)]
    np.testing.assert_allclose(np.asarray(moved[1]), 2 * np.asarray(moved[0]), rtol=1e-3)
    np.testing.assert_allclose(np.asarray(moved[2]), 2 * np.asarray(moved[1]), rtol=1e-3)


def test_samples_of_masks_give_a_band_and_the_detail_of_each_layer(client):
    made = client.predict("mtnet", **SINE, samples=10, seed=1, detail=True, query={"x": [[0.0], [1.0]]})
    low, mean, high = (np.asarray(made[name]) for name in ("low", "y", "high"))
    assert (low <= mean).all()
    assert (mean <= high).all()
    assert (low < high).any()
    for layer, units in zip(made["detail"]["layers"], (6, 1), strict=True):
        assert len(layer["mask"]) == units
        assert all(round(10 * share, 3) % 1 == 0 for share in layer["mask"])  # the mean of ten bits
    plain = client.predict("maml", **SINE, samples=10, query={"x": [[0.0]]}, detail=True)
    assert plain["low"] is None
    assert plain["detail"]["layers"][0]["mask"] is None


def test_the_mask_that_is_told_is_the_one_that_was_drawn(client):
    made = client.adapt("mtnet", **SINE, seed=5, detail=True)["detail"]["layers"]
    assert {bit for layer in made for bit in layer["mask"]} <= {0.0, 1.0}
    closed = [layer for layer in made if not any(layer["mask"])]
    assert all(layer["moved"] == 0 for layer in closed)
    assert all(layer["moved"] > 0 for layer in made if all(layer["mask"]))


def test_many_at_once_get_the_same_answers_as_one_by_one(url):
    tasks = [sine(seed, points=3 + seed) for seed in range(24)]
    alone = Client(url, seconds=150)
    known = [alone.predict("mtnet", **task, seed=n, steps=n % 4, query={"x": [[0.5]]}) for n, task in enumerate(tasks)]

    def one(number):
        with Client(url, seconds=150) as mine:
            return mine.predict("mtnet", **tasks[number], seed=number, steps=number % 4, query={"x": [[0.5]]})

    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(one, range(24)))
    alone.close()
    for a, b in zip(known, together, strict=True):
        np.testing.assert_allclose(a["y"], b["y"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(a["loss_after"], b["loss_after"], rtol=1e-5)


def test_requests_are_gathered_into_one_call(runs):
    with service(runs[:1]) as (url, made):
        until(lambda: made.warm)
        held = threading.Event()
        hold(made, held)

        def one(number):
            with Client(url, seconds=150) as mine:
                return mine.adapt("maml", **sine(number))

        with ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(one, number) for number in range(4)]
            until(lambda: made.scheduler.batcher.waiting == 3)
            held.set()
            assert all(answer.result()["adapter"] for answer in answers)
        calls = [made.metrics.registry.get_sample_value(f"fewstep_gathered_tasks_{of}") for of in ("count", "sum")]
        assert calls == [2, 4]  # the first, and those that came while the worker was busy


def test_a_result_that_is_not_finite_harms_no_other(url):
    wild = {"x": [[1e18]], "y": [[-1e18]]}

    def one(number):
        with Client(url, seconds=150) as mine:
            try:
                return mine.adapt("maml", **(wild if number % 4 == 0 else sine(number)), steps=5)["loss_after"]
            except ServiceError as error:
                return error

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(one, range(16)))
    refused = [answer for answer in made if isinstance(answer, ServiceError)]
    assert [error.status for error in refused] == [422] * 4
    assert {error.code for error in refused} == {"not_finite"}
    assert "fewer steps" in str(refused[0])
    assert all(np.isfinite(answer) for answer in made if not isinstance(answer, ServiceError))


def test_a_forgotten_adapter_is_gone_and_an_unknown_one_never_was(client):
    name = client.adapt("maml", **SINE)["adapter"]
    with pytest.raises(ServiceError, match="not an adapter of mtnet") as error:
        client.predict("mtnet", adapter=name, x=[[1.0]])
    assert error.value.status == 404
    client.forget("maml", name)
    for act in (lambda: client.predict("maml", adapter=name, x=[[1.0]]), lambda: client.forget("maml", name)):
        with pytest.raises(ServiceError, match="Send the support set") as error:
            act()
        assert error.value.status == 410
    with pytest.raises(ServiceError) as error:
        client.predict("maml", adapter="never", x=[[1.0]])
    assert (error.value.status, error.value.code) == (404, "unknown_adapter")


def test_a_random_task_has_its_curve(client):
    made = client.task("maml", seed=4, shots=7)
    assert np.shape(made["support"]["x"]) == (7, 1)
    curve = made["curve"]
    assert len(curve["x"]) == len(curve["y"]) == 200
    assert (curve["x"][0], curve["x"][-1]) == (-5, 5)
    near = np.interp(np.ravel(made["support"]["x"]), curve["x"], curve["y"])
    np.testing.assert_allclose(near, np.ravel(made["support"]["y"]), atol=0.01)
    assert client.task("maml", seed=4, shots=7) == made
    assert client.task("maml", seed=5) != made


def test_the_training_view(url, runs, client):
    _, told, _ = ask(url, "GET", "/v1/runs")
    assert [(run["name"], run["step"], run["steps"]) for run in told["runs"]] == [("maml", 40, 40), ("mtnet", 40, 40)]
    assert not any(run["training"] for run in told["runs"])
    status, log, _ = ask(url, "GET", "/v1/runs/maml/log?after=-1")
    assert status == 200
    assert all(row.keys() == {"step", "seed", "loss", "validation"} for row in log["rows"])
    assert ask(url, "GET", "/v1/runs/maml/log?after=40")[1]["rows"] == []
    for name in ("never", "..", "%2e%2e", "..%2f..%2fetc"):
        assert ask(url, "GET", f"/v1/runs/{name}/log")[0] == 404
    assert ask(url, "GET", "/v1/runs/maml/log?after=x")[0] == 422


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not list its locks")
def test_a_run_trains_while_it_is_held_however_seldom_it_writes(tmp_path):
    import fcntl  # which Windows does not have

    run = begun(tmp_path, "maml", steps=1000)
    told = lambda: [each.training for each in list_runs(tmp_path)]
    assert told() == [False]  # it has written just now, and nobody holds it
    os.utime(run / "metrics.csv", (0, 0))
    with locked(run, "busy"):
        assert told() == [True]
        with (run / LOCK).open() as file, pytest.raises(BlockingIOError):  # looking has not let go of it
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert told() == [False]


def test_where_locks_are_not_listed_a_run_trains_while_it_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(run_listing, "_LOCKS", tmp_path / "none")
    run = begun(tmp_path, "maml", steps=1000)
    assert list_runs(tmp_path)[0].training
    os.utime(run / "metrics.csv", (0, 0))
    assert not list_runs(tmp_path)[0].training


def test_health_metrics_and_descriptions(url, client):
    client.adapt("maml", **SINE)
    assert ask(url, "GET", "/healthz")[:2] == (200, {"status": "alive"})
    assert ask(url, "GET", "/readyz")[:2] == (200, {"status": "ready"})
    _, text, head = ask(url, "GET", "/metrics")
    assert head["content-type"].startswith("text/plain; version=0.0.4")
    assert 'fewstep_requests_total{route="adapt",status="200"}' in text
    assert "fewstep_gathered_tasks_bucket" in text
    told = ask(url, "GET", "/openapi.json")[1]
    assert told["openapi"].startswith("3.1")
    assert "securitySchemes" not in told["components"]  # there is no token
    assert "/v1/models/{name}/adapt" in told["paths"]
    assert told["paths"]["/metrics"]["get"]["responses"]["200"]["content"].keys() == {"text/plain"}
    _, page, head = ask(url, "GET", "/docs")
    assert "/v1/models/{name}/predict" in page
    assert "<script" not in page
    assert "http" not in page.replace("http&quot;", "")
    assert "default-src 'self'" in head["content-security-policy"]
    assert head["x-content-type-options"] == "nosniff"


@pytest.mark.slow
def test_the_client_reconnects_and_takes_arrays(client):
    client.adapt("maml", **SINE)
    client._connection.close()  # as a server does that was idle for long
    made = client.adapt("maml", x=np.asarray(SINE["x"]), y=np.asarray(SINE["y"]))
    assert made["loss_before"] > 0
    with pytest.raises(ValueError, match="no address"):
        Client("localhost")


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"x": [[1.0], [2.0]], "y": [[1.0], [float("nan")]]}, r"support\.y\[1\]\[0\] is nan"),
        ({"x": np.asarray([[1.0], [-np.inf]]), "y": [1.0, 2.0]}, r"support\.x\[1\]\[0\] is -inf"),
        ({"x": [np.float64("inf")], "y": [1.0]}, r"support\.x\[0\] is inf"),
        (SINE | {"pace": float("nan")}, "pace is nan"),
        ({"columns": {"a": [1.0, float("inf")]}}, r"support\.columns\['a'\]\[1\] is inf"),
    ],
)
def test_the_client_says_which_number_is_not_finite(client, given, place):
    with pytest.raises(ValueError, match=place) as error:
        client.adapt("maml", **given)
    assert "Nothing was sent." in str(error.value)
    assert client.adapt("maml", **SINE)["adapter"]
    with pytest.raises(ValueError, match=r"query\.x\[0\]\[0\] is nan"):
        client.predict("maml", **SINE, query={"x": [[float("nan")]]})


@contextlib.contextmanager
def scripted(*answers):
    """A server that answers each connection with the next of some bytes; with none it stays silent."""
    ended = threading.Event()

    def work(listening):
        for answer in answers:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                if answer:
                    connection.sendall(answer)
                else:
                    ended.wait(60)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=work, args=(listening,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", ended
        finally:
            ended.set()
        thread.join()


def answer(status: str, content: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n".encode() + content


def test_the_client_can_be_used_after_a_timeout():
    with scripted(b"", answer("200 OK", b'{"models": []}')) as (url, ended), Client(url, seconds=0.2) as client:
        with pytest.raises(TimeoutError):
            client.models()
        ended.set()
        client._connection.timeout = 60
        assert client.models() == []


@pytest.mark.parametrize(
    ("status", "content", "code", "told"),
    [
        ("502 Bad Gateway", b"<html>no</html>", "not_json", "The answer 502 is not JSON: '<html>no</html>'"),
        ("200 OK", b"hello", "not_json", "Is this the address of a fewstep service"),
        ("500 Oh", b"", "", "Oh"),
        ("403 Forbidden", b'{"error": "other"}', "", "Forbidden"),
        ("429 Wait", b'{"error": {"code": "c", "message": "m"}}', "c", "m"),
    ],
)
def test_answers_that_others_give_are_errors_of_the_service(status, content, code, told):
    with scripted(answer(status, content)) as (url, _), Client(url) as client:
        with pytest.raises(ServiceError, match=told) as error:
            client.models()
        assert (str(error.value.status), error.value.code) == (status[:3], code)
