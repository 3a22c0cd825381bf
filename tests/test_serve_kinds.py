"""Other kinds of models than curves: images as PNG and arrays, tables by their columns, learners without steps."""

import base64
import io
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas
import pytest
from helpers import DATA, needs_omniglot
from PIL import Image, ImageDraw
from serving import SINE, ask, begun, service, until

from fewstep.cli import main
from fewstep.models import adapt
from fewstep.problems import images, read_frame
from fewstep.runs import load
from fewstep.serve import Client, Limits, ServiceError, endpoints
from fewstep.serve.errors import Refusal, invalid
from fewstep.serve.random_task import TaskDrawer
from fewstep.serve.schema import TaskRequest
from fewstep.serve.served_model import load_models
from fewstep.tables import read
from fewstep.tasks import batch

pytestmark = pytest.mark.xdist_group("serve")
SHIPPED = "omniglot-mtnet-5way"


@pytest.fixture(scope="module")
def url():
    with service([SHIPPED]) as (url, _):
        yield url


def stroke(kind: int, shift: int = 0, size: int = 105, mode: str = "L") -> bytes:
    """A made-up character: dark ink on white, or on nothing."""
    image = Image.new(mode, (size, size), "white" if mode == "L" else (0, 0, 0, 0))
    ink, at = "black", lambda *places: [(size * x // 100 + shift, size * y // 100 + shift) for x, y in places]
    draw, width = ImageDraw.Draw(image), max(2, size // 25)
    if kind == 0:
        draw.ellipse(at((20, 20), (80, 80)), outline=ink, width=width)
    elif kind == 1:
        draw.line(at((50, 10), (50, 90)), ink, width)
    elif kind == 2:
        draw.line(at((20, 20), (80, 20), (20, 80), (80, 80)), ink, width)
    elif kind == 3:
        draw.line(at((20, 20), (50, 80), (80, 20)), ink, width)
    else:
        draw.line(at((15, 50), (85, 50)), ink, width)
        draw.line(at((50, 15), (50, 85)), ink, width)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def test_characters_are_recognized_from_one_example_each(url):
    with Client(url, seconds=150) as client:
        made = client.adapt(SHIPPED, images=[stroke(kind) for kind in range(5)], labels=list("abcde"))
        assert made["classes"] == ["a", "b", "c", "d", "e"]
        asked = [
            stroke(kind, 3, mode=mode, size=size) for kind in range(4) for mode, size in (("L", 90), ("RGBA", 200))
        ]
        told = client.predict(SHIPPED, adapter=made["adapter"], images=asked)
        chances = np.asarray(told["probabilities"])
        assert chances.shape == (8, 5)
        np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-5)
        assert chances.argmax(1).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        alone = client.predict(SHIPPED, adapter=made["adapter"], images=asked[:1])["probabilities"]
        np.testing.assert_allclose(alone, chances[:1], atol=1e-5)  # an answer does not depend on the others


def test_more_than_it_can_do_is_refused_before_it_begins(url):
    images = [stroke(kind % 5, kind % 7) for kind in range(40)]
    with Client(url, seconds=150) as client:
        assert client.model(SHIPPED)["limits"]["ways"] == 5  # of the last layer
        with pytest.raises(ServiceError, match="40 examples x 16 samples x 100 steps are 64000, and the limit") as told:
            client.adapt(SHIPPED, images=images, labels=[str(n % 5) for n in range(40)], steps=100, samples=16)
        assert (told.value.status, told.value.code) == (422, "too_much_work")
    with Client("http://127.0.0.1:1") as nobody, pytest.raises(ConnectionRefusedError, match="No service answers at"):
        nobody.models()


@pytest.mark.slow
def test_fewer_classes_than_in_training(url):
    with Client(url, seconds=150) as client:
        while True:
            try:
                made = client.adapt(SHIPPED, images=[stroke(kind) for kind in range(3)], labels=["a", "b", "c"])
                break
            except ServiceError as error:  # the program for three classes may still be compiling
                if error.code != "out_of_time":
                    raise
        told = client.predict(SHIPPED, adapter=made["adapter"], images=[stroke(kind, 3) for kind in range(3)])
        assert np.asarray(told["probabilities"]).argmax(1).tolist() == [0, 1, 2]


@pytest.mark.slow
def test_arrays_give_what_the_library_gives(url):
    rng = np.random.default_rng(0)
    x, asked = rng.random((5, 28, 28)).astype(np.float32), rng.random((2, 28, 28, 1)).astype(np.float32)
    with Client(url, seconds=150) as client:
        told = client.predict(SHIPPED, x=x, labels=[0, 1, 2, 3, 4], steps=2, query={"x": asked.tolist()})
    known = adapt(load(SHIPPED), batch(x[..., None], np.arange(5)), steps=2, ways=5).answer(asked).mean
    np.testing.assert_allclose(told["y"], known, atol=1e-4)
    assert told["classes"] == ["0", "1", "2", "3", "4"]


def bomb() -> str:
    """A small PNG that says it is 60000 pixels wide and high."""
    content = bytearray(stroke(0))
    content[16:24] = (60_000).to_bytes(4, "big") * 2
    return base64.b64encode(bytes(content)).decode()


@pytest.mark.parametrize(
    ("support", "code"),
    [
        ({"images": ["/etc/passwd", "x"], "labels": ["a", "b"]}, "bad_image"),
        ({"images": [base64.b64encode(b"GIF89a").decode()] * 2, "labels": ["a", "b"]}, "bad_image"),
        ({"images": [base64.b64encode(stroke(0)[:60]).decode()] * 2, "labels": ["a", "b"]}, "bad_image"),
        ({"images": [bomb()] * 2, "labels": ["a", "b"]}, "image_too_large"),
        ({"images": [], "labels": []}, "no_rows"),
        ({"x": [[[0.5]]], "labels": ["a"]}, "wrong_shape"),
        ({"x": [[[2.0] * 28] * 28] * 2, "labels": ["a", "b"]}, "out_of_range"),
        ({"x": [[[0.0] * 28] * 28] * 2, "labels": ["a", "a"]}, "one_class"),
        ({"x": [[[0.0] * 28] * 28] * 2, "labels": ["a"]}, "unequal_rows"),
        ({"x": [[[0.0] * 28] * 28] * 2}, "no_labels"),
        ({"x": [[[0.0] * 28] * 28] * 21, "labels": list(range(21))}, "too_many_ways"),
        ({"x": [[[0.0] * 28] * 28] * 6, "labels": list(range(6))}, "does_not_fit"),  # the network has five outputs
        ({}, "no_images"),
    ],
)
def test_images_that_cannot_be_used(url, support, code):
    status, told, _ = ask(url, "POST", f"/v1/models/{SHIPPED}/adapt", {"support": support})
    assert (status, told["error"]["code"]) == (422, code)


def test_a_random_task_takes_the_images_of_the_package_and_downloads_none(url, tmp_path, monkeypatch):
    monkeypatch.setenv("FEWSTEP_CACHE", str(tmp_path))
    monkeypatch.delenv("FEWSTEP_DATA", raising=False)
    with Client(url, seconds=150) as client:
        assert client.task(SHIPPED, shots=2)["support"]["labels"] == sorted("ABCDE" * 2)
    assert not list(tmp_path.iterdir())


def test_images_of_about_one_size_are_read_one_at_a_time(url, monkeypatch):
    inside, most, held = [], [], threading.Event()

    def read(served, asked):
        inside.append(asked)
        most.append(len(inside))
        held.wait(60)
        inside.pop()
        raise invalid("seen", "That is all.")

    monkeypatch.setattr(endpoints, "parse_task", read)
    asked = {"support": {"images": [], "labels": []}}
    with ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(ask, url, "POST", f"/v1/models/{SHIPPED}/adapt", asked) for _ in range(6)]
        until(lambda: len(inside) == 1)
        time.sleep(0.2)  # a second would come by now
        held.set()
        assert {answer.result()[1]["error"]["code"] for answer in answers} == {"seen"}
    assert max(most) == 1


def test_the_images_of_a_task_are_loaded_once_whatever_the_shots(tmp_path, monkeypatch):
    monkeypatch.setenv("FEWSTEP_CACHE", str(tmp_path / "cache"))
    for number in range(12):
        (tmp_path / "images" / f"c{number:02d}").mkdir(parents=True)
        for turn in range(6):
            (tmp_path / "images" / f"c{number:02d}" / f"{turn}.png").write_bytes(stroke(number % 5, turn, 20 + number))
    options = {"tasks": f"folder:{tmp_path / 'images'}", "ways": 2, "shots": 1, "filters": 2, "image_size": 16,
               "color": "gray", "hidden": None, "init": None, "inner_lr": None}  # fmt: skip
    (served,) = load_models([begun(tmp_path, "maml", **options)], Limits(points=8)).values()
    loads, drawer, known = [], TaskDrawer(), images.data.load
    monkeypatch.setattr(images.data, "load", lambda *given, **more: loads.append(given) or known(*given, **more))
    drawn = {shots: drawer.draw(served, TaskRequest(seed=3, shots=shots)) for shots in (1, 2, 3, 4)}
    assert len(loads) == 2  # to see how many images there are, and to draw as many as can be asked for
    assert len(drawer._draws) == 1
    for shots, task in drawn.items():
        assert task.support.labels == ["A"] * shots + ["B"] * shots
        assert task.support.images[:shots] == drawn[4].support.images[:shots]
        assert task.query.labels == ["A", "B"]
    with pytest.raises(Refusal, match="8") as error:
        drawer.draw(served, TaskRequest(shots=5))
    assert error.value.code == "too_many_points"
    shutil.rmtree(tmp_path / "images")
    with pytest.raises(Refusal, match="are not here") as error:
        drawer.draw(served, TaskRequest())
    assert (error.value.status, error.value.code) == (404, "no_data")


@needs_omniglot
@pytest.mark.slow
def test_a_random_episode_is_recognized(url, monkeypatch):
    monkeypatch.setenv("FEWSTEP_DATA", str(DATA))
    right = 0
    with Client(url, seconds=150) as client:
        for seed in range(5):
            made = client.task(SHIPPED, seed=seed, shots=1)
            assert made["support"]["labels"] == ["A", "B", "C", "D", "E"]
            told = client.predict(SHIPPED, **made["support"], query={"images": made["query"]["images"]})
            best = [told["classes"][n] for n in np.asarray(told["probabilities"]).argmax(1)]
            right += sum(a == b for a, b in zip(best, made["query"]["labels"], strict=True))
    assert right >= 18  # of 25; chance is 5


@pytest.mark.parametrize("missing", ["mean", "refuse"])
def test_a_cell_without_a_value_may_be_nan_where_the_model_fills_it_in(tmp_path, missing):
    rows = [f"{child},{age}.5,{10 * age + child}" for child in range(12) for age in range(1, 9)]
    (tmp_path / "heights.csv").write_text("\n".join(["child,age,height", *rows]) + "\n")
    options = {"task": "child", "x": ("age",), "y": "height", "hidden": None, "missing": missing, "seeds": 1}
    run = begun(tmp_path, "maml", tasks=f"table:{tmp_path / 'heights.csv'}", shots=3, **options)
    known = {"age": np.asarray([1.0, np.nan]), "height": [70.0, 80.0]}
    with service([run]) as (url, _), Client(url, seconds=150) as client:
        if missing == "mean":
            told = [client.adapt("maml", columns=known | {"age": [1.0, none]})["loss_after"] for none in (None, np.nan)]
            assert told[0] == told[1] == client.adapt("maml", columns=known)["loss_after"]
            assert told[0] == client.adapt("maml", columns=pandas.DataFrame(known))["loss_after"]
            known = known | {"height": [70.0, np.nan]}  # but a target is needed
        with pytest.raises(ServiceError, match="has nothing in the column") as error:
            client.adapt("maml", columns=known)
        assert error.value.code == "bad_columns"


def answers(model, known, asked):
    """What the library answers to rows of a table, by column."""
    query = read_frame(model.problem, read(asked), "query")
    answer = adapt(model, read_frame(model.problem, read(known), "support")).answer(query.x, distance=query.distance)
    return model.kind.write(model.problem, query, answer).columns


@pytest.mark.slow
def test_a_table_is_asked_by_its_columns_and_answers_in_its_unit(tmp_path):
    rng, rows = np.random.default_rng(0), ["child,age,sex,height"]
    for child in range(24):
        start, pace = rng.normal(70, 4), rng.normal(6, 0.5)
        rows += [f"c{child},{age:.2f},{'mf'[child % 2]},{start + pace * age:.2f}" for age in rng.uniform(1, 12, 12)]
    (tmp_path / "heights.csv").write_text("\n".join(rows) + "\n")
    train = [
        "train",
        "mtnet",
        f"table:{tmp_path / 'heights.csv'}",
        "--task",
        "child",
        "--x",
        "age",
        "sex",
        "--y",
        "height",
    ]
    run = tmp_path / "heights"
    assert main([*train, "--steps", "60", "--seeds", "2", "--run", str(run), "--no-report"]) == 0
    known = {"age": [2.0, 5.0, 8.0], "sex": ["f", "f", "f"], "height": [82.0, 101.0, 118.0]}
    asked = {"age": [3.0, 10.0], "sex": ["f", "f"]}
    with service([run]) as (url, _), Client(url) as client:
        assert client.model("heights")["columns"] == {"x": ["age", "sex"], "y": "height"}
        told = client.predict("heights", columns=known, query={"columns": asked})
        library = answers(load(run), known, asked)
        np.testing.assert_allclose(np.ravel(told["y"]), library["prediction"], rtol=1e-4)
        np.testing.assert_allclose(np.ravel(told["low"]), library["low"], rtol=1e-3)
        np.testing.assert_allclose(np.ravel(told["high"]), library["high"], rtol=1e-3)
        for other in ({"steps": 0}, {"pace": 0.5}, {"samples": 1}):  # the intervals are calibrated for none of these
            assert client.predict("heights", columns=known, query={"columns": asked}, **other)["low"] is None
        for columns, code in (
            ({"age": [1.0]}, "bad_columns"),
            ({}, "no_columns"),
            (known | {"sex": ["x"] * 3}, "bad_columns"),
        ):
            with pytest.raises(ServiceError) as error:
                client.adapt("heights", columns=columns)
            assert (error.value.status, error.value.code) == (422, code)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gaussian", "metanet", "meta_sgd", "mtnet_full", "reptile"])
def test_any_method_can_be_served(tmp_path, method):
    plain = {"hidden": None, "init": None, "inner_lr": None}
    run = begun(tmp_path, method, **(plain if method in ("metanet", "gaussian") else {}))
    with service([run]) as (url, _), Client(url) as client:
        told = client.predict(method, **SINE, query={"x": [[0.3], [2.0]]}, steps=3, detail=True)
        known = adapt(load(run), batch(SINE["x"], SINE["y"]), steps=3).answer(np.asarray([[0.3], [2.0]])).mean
        np.testing.assert_allclose(told["y"], known, rtol=1e-4, atol=1e-5)
