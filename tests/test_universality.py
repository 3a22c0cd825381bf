"""The construction of Finn & Levine: every statement of its proof as a number, and the whole as a learner."""

import dataclasses
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fewstep import Batch, FewstepError, gradient_learner
from fewstep._network import Network
from fewstep.rules import maml
from fewstep.universality import Construction, Plan, checks, construct, nearest_neighbor, ridge, target_of
from fewstep.universality._network import run_layers
from fewstep.universality.losses import which_carry
from fewstep_studies.reproduce.universality import UniversalityOptions, _figures
from tests.helpers import assert_close, output

SMALL = Plan(bins=3, query_bins=4)
PLANS = {
    "scalar": SMALL,
    "two examples": dataclasses.replace(SMALL, examples=2),
    "ReLU": dataclasses.replace(SMALL, activation="relu"),
    "vectors": Plan(bins=2, x_box=((-1.0, 1.0), (0.0, 3.0)), y_box=((-1.0, 1.0), (2.0, 5.0))),
    "counts": Plan(bins=2, labels="one-hot", classes=3, examples=4),
    "counts, ReLU": Plan(bins=2, labels="one-hot", classes=2, examples=3, activation="relu"),
    "classes": Plan(bins=3, labels="classes", classes=3, examples=2),
}


SOME = [
    pytest.param(plan, id=name, marks=() if name in ("scalar", "vectors") else pytest.mark.slow)
    for name, plan in PLANS.items()
]


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def _any(x: Any, y: Any, x_star: Any) -> Any:
    """A target with no structure that helps: it mixes all it gets, whatever its shape."""
    mean = jnp.mean(jnp.sin(3 * x) @ jnp.ones(x.shape[1]))
    labels = jnp.asarray(y, float)
    per_output = jnp.mean(labels, axis=0) if labels.ndim == 2 else jnp.arange(3) * jnp.mean(labels)
    return per_output * jnp.cos(jnp.sum(x_star) - mean) + jnp.sum(x_star)


def _as_one_matrix(built: Construction) -> Network:
    """The same network with each layer as one full matrix, as the paper has it."""
    plan, blocks = built.plan, built.meta["weights"]["layers"]
    tilde, bar = plan.J + plan.L, plan.slots * plan.outputs

    def matrix(layer: Any) -> Any:
        whole = jnp.zeros((tilde + bar + 1,) * 2)
        whole = whole.at[:tilde, :tilde].set(layer["tilde"]).at[tilde:-1, tilde:-1].set(jnp.diag(layer["bar"]))
        return whole.at[-1, -1].set(layer["check"])

    def apply(params: Any, state: Any, x: Any, weight: Any) -> Any:
        switch = params["switch"]
        upper = jax.nn.one_hot(plan.bin_of(x), plan.J) * (switch == 0)
        lower = jax.nn.one_hot(plan.bin_of(x, query=True), plan.L) * (switch != 0)
        flow = jnp.concatenate(
            [upper, lower, jnp.zeros((len(x), bar)), jnp.broadcast_to(switch, (len(x), 1))], axis=1
        )  # fmt: skip
        for layer in params["layers"]:
            flow = flow @ layer.T
        groups = flow[:, tilde:-1].reshape(len(x), plan.slots, plan.outputs)
        return jnp.asarray(plan.offset)[None] + groups.sum(1) + flow[:, -1:] * plan.check[None], flow

    init = lambda key: {"switch": jnp.zeros(()), "layers": jax.vmap(matrix)(blocks)}
    return Network(init, apply, ())


class TestTheLayers:
    @pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
    def test_products_and_kernel_are_those_of_the_proof(self, plan: Plan) -> None:
        built = construct(_any, plan)
        off, met = checks.products(built), checks.kernel(built)
        assert max(off) < 1e-12
        assert abs(met.own - (1 + 2 * plan.epsilon)) < 1e-12
        assert met.elsewhere < 1e-12
        assert met.table.shape == (plan.n_layers, plan.J, plan.L)

    @pytest.mark.slow
    def test_a_damaged_layer_is_noticed(self) -> None:
        built = construct(ridge, SMALL)
        damaged = jax.tree.map(lambda leaf: leaf, built.meta)
        damaged["weights"]["layers"]["tilde"] = damaged["weights"]["layers"]["tilde"].at[4, 0, 0].add(1e-6)
        assert checks.products(built._replace(meta=damaged)).tilde > 1e-9
        assert checks.closed_form(built._replace(meta=damaged)).error > 1e-9

    def test_blocks_are_the_full_network(self) -> None:
        """Blocks that are not stored stay zero: the full matrices learn the same."""
        plan = Plan(bins=2, query_bins=3, examples=2)
        built = construct(ridge, plan)
        x, y = np.array([[-0.5], [0.5]]), np.array([[0.3], [-0.9]])
        dense = gradient_learner(_as_one_matrix(built), maml(plan.lr), plan.loss)
        batch = Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(2))
        meta = dense.init(jax.random.key(0))
        moved = dense.adapt(meta, jax.random.key(0), batch, 1).fast
        ours = built.adapt(x, y).fast
        tilde = plan.J + plan.L
        assert_close(moved["layers"][:, tilde:-1, :tilde], ours["layers/cross"], 1e-12)
        assert_close(moved["layers"][:, -1, :tilde], ours["layers/to_check"], 1e-12)
        assert_close(moved["switch"], ours["switch/bias"], 1e-12)
        change = moved["layers"] - meta["weights"]["layers"]
        kept = change.at[:, tilde:, :tilde].set(0.0)
        assert jnp.abs(kept).max() == 0

    def test_thirty_two_bins_fit(self) -> None:
        """1,026 layers as blocks; as matrices they would take ten gigabytes."""
        shapes = jax.eval_shape(construct(_constant, Plan(bins=2)).network.init, jax.random.key(0))
        assert shapes["layers"]["tilde"].shape == (6, 4, 4)
        big = Plan(bins=32)
        numbers = big.n_layers * ((big.J + big.L) * (big.slots + big.J + big.L + 1) + big.slots + 1)
        assert (big.n_layers, 8 * numbers < 600e6) == (1026, True)

    @pytest.mark.slow
    def test_thirty_two_bins_take_a_step_in_three_gigabytes(self) -> None:
        script = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (3_000_000_000, 3_000_000_000))
import jax
jax.config.update("jax_enable_x64", True)
from fewstep.universality import Plan, construct, ridge
built = construct(ridge, Plan(bins=32))
print(built.plan.n_layers, *built.learn([[0.5]], [[0.8]], [[-1.0], [0.0], [1.0]])[:, 0])
"""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "JAX_"))}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=clean, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        layers, *answers = map(float, done.stdout.split())
        assert layers == 1026
        assert_close(np.array(answers), [-0.5333, 0.0, 0.5333], 0.03)


def _constant(x: Any, y: Any, x_star: Any) -> Any:
    return jnp.zeros(1)


class TestTheStep:
    @pytest.mark.parametrize("plan", SOME)
    def test_what_is_written_is_the_closed_form(self, plan: Plan) -> None:
        found = checks.closed_form(construct(_any, plan))
        assert found.error < 1e-12
        assert found.largest > 0

    def test_there_is_no_remainder_in_alpha_and_epsilon(self) -> None:
        assert max(checks.over_alpha(construct(ridge, SMALL))) < 1e-12
        assert max(checks.over_epsilon(ridge, SMALL, (0.5, 1e-3))) < 1e-9

    @pytest.mark.slow
    def test_it_has_a_low_rank_in_each_layer_and_a_higher_one_in_all(self) -> None:
        """The backward signals of scalar labels all point the same way, so that two examples still make rank one."""
        for name, most in {"scalar": 1, "two examples": 1, "counts": 3}.items():
            found = checks.ranks(construct(_any, PLANS[name]))
            assert 1 <= found.of_a_layer <= most
            assert found.of_the_product > most

    def test_activations_are_not_negative(self) -> None:
        before, after = checks.min_activation(construct(ridge, SMALL))  # a ReLU would hide what is below 0
        assert min(before, after) > -1e-12

    def test_the_frameworks_relu_kills_it(self) -> None:
        plan = dataclasses.replace(SMALL, activation="framework relu")
        killed, whole = construct(ridge, plan), construct(ridge, PLANS["ReLU"])
        assert checks.max_written(killed) == 0
        assert checks.max_written(whole) > 0.01
        assert killed.learn([[0.5]], [[0.8]], [[0.1]]) == pytest.approx(_after_a_step_of_the_offset(plan, 0.8))

    @pytest.mark.slow
    def test_without_a_step_the_network_predicts_its_offset(self) -> None:
        built = construct(ridge, SMALL)
        y, _ = built.network.apply(built.meta["weights"], (), jnp.array([[0.3], [-0.9]]), jnp.ones(2))
        assert_close(y, jnp.full((2, 1), -3.0), 1e-12)

    @pytest.mark.slow
    def test_single_precision_is_near(self) -> None:
        with jax.enable_x64(False):
            assert checks.closed_form(construct(ridge, SMALL)).error < 1e-5


def _after_a_step_of_the_offset(plan: Plan, y: float) -> float:
    """What is left where nothing is written: the output's own offset and the switch moved down the gradient."""
    signal = 2 * (y - plan.offset[0])
    return float(plan.offset[0] + plan.lr * signal)


class TestTheLearner:
    @pytest.mark.parametrize("plan", SOME)
    def test_at_the_centers_it_is_the_target(self, plan: Plan) -> None:
        """At the bins' centers nothing is lost but what lies between two knots of y: those are hit here."""
        built, knots = construct(_any, plan, knots=5), 5
        random = np.random.default_rng(0)
        for _ in range(4):
            x = plan.centers()[random.permutation(plan.J)[: plan.examples]]
            if plan.labels == "numbers":
                low, high = (np.array(side) for side in zip(*plan.y_box, strict=True))
                y = low + (high - low) * random.integers(knots, size=(plan.examples, plan.outputs)) / (knots - 1)
            else:
                drawn = random.integers(plan.classes, size=plan.examples)
                y = drawn if plan.labels == "classes" else np.eye(plan.classes)[drawn]
            if plan.labels == "one-hot":
                x = plan.centers()[random.integers(plan.J, size=plan.examples)]  # bins may be shared
            asked = plan.centers(query=True)
            told = np.stack([np.asarray(_any(jnp.asarray(x), jnp.asarray(y), jnp.asarray(s))) for s in asked])
            assert_close(built.learn(x, y, asked), told, 1e-9)

    @pytest.mark.slow
    def test_more_bins_are_nearer(self) -> None:
        found = [error.root_mean_square for error in checks.over_bins(ridge, Plan(), (2, 4, 8), n=60)]
        assert found[1] < 0.7 * found[0]
        assert found[2] < 0.7 * found[1]

    def test_nearest_neighbor_with_two_examples(self) -> None:
        built = construct(nearest_neighbor, Plan(bins=8, examples=2))
        answers = built.learn([[-0.8], [0.7]], [[0.25], [-0.5]], [[-1.0], [-0.3], [0.4], [1.0]])
        assert_close(answers[:, 0], [0.25, 0.25, -0.5, -0.5], 1e-9)

    @pytest.mark.slow
    def test_a_trained_perceptron_reads_it_out_too(self) -> None:
        plan = Plan(bins=3)
        by_table, by_mlp = construct(ridge, plan), construct(ridge, plan, readout="mlp")
        off = checks.error(by_mlp, ridge, n=50).root_mean_square
        assert off < 1.3 * checks.error(by_table, ridge, n=50).root_mean_square

    def test_a_numpy_target_is_taken_too(self) -> None:
        def halves(x: Any, y: Any, x_star: Any) -> float:
            return float(np.asarray(y)[0, 0] if x_star[0] > 0 else -np.asarray(y)[0, 0])

        built = construct(halves, Plan(bins=2))
        assert_close(built.learn([[0.2]], [[0.5]], [[-0.5], [0.5]])[:, 0], [-0.5, 0.5], 1e-9)

    def test_which_losses_carry_y(self) -> None:
        carry = {found.name: found.carries for found in which_carry()}
        assert carry == {
            "squared error": True, "absolute error": False, "Huber": False, "hinge": False, "cross entropy": True,
        }  # fmt: skip
        inside = {found.name: found.carries for found in which_carry((0.05, 0.1, 0.2))}
        assert inside["Huber"]  # near 0 it is a square

    def test_a_target_that_wants_whole_numbers_is_taken_too(self) -> None:
        built = construct(lambda x, y, s: [y[0, 0], -y[0, 0]][(s[0] > 0).astype(int)], Plan(bins=2))
        assert_close(built.learn([[0.2]], [[0.5]], [[-0.5], [0.5]])[:, 0], [0.5, -0.5], 1e-9)

    @pytest.mark.parametrize(("classes", "examples"), [(2, 2), (2, 4), (3, 3), (3, 1)])
    def test_examples_of_all_classes_turn_the_switch(self, classes: int, examples: int) -> None:
        """From an even first prediction the errors of one example of each class would cancel."""
        plan = Plan(bins=4, query_bins=2, labels="classes", classes=classes, examples=examples)
        even = jax.nn.one_hot(jnp.arange(classes), classes) - 1 / classes
        assert_close(even.sum(0) @ plan.check, 0.0, 1e-12)
        for y in itertools.combinations_with_replacement(range(classes), examples):
            turned = plan.signal(np.array(y)).sum(0) @ plan.check
            assert_close(turned, y.count(classes - 1) - 0.5, 1e-12)

    def test_one_example_of_each_class(self) -> None:
        def nearest(x: Any, y: Any, x_star: Any) -> Any:
            return jax.nn.one_hot(y[jnp.argmin(jnp.abs(x[:, 0] - x_star[0]))], 2)

        built = construct(nearest, Plan(bins=4, labels="classes", examples=2))
        x, asked = [[-0.75], [0.75]], [[-0.75], [-0.25], [0.25], [0.75]]
        assert float(built.adapt(x, [0, 1]).fast["switch/bias"]) != 0
        for y, told in {(0, 1): [0, 0, 1, 1], (1, 0): [1, 1, 0, 0], (0, 0): [0] * 4, (1, 1): [1] * 4}.items():
            assert_close(built.learn(x, list(y), asked), np.eye(2)[told], 1e-9)


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"bins": 0}, "bins is 0. It must be an integer of at least 1"),
            ({"bins": 99}, "99 bins of x and 99 of x\\* make 9,803 layers of 152 GB"),
            ({"bins": 70}, "4,902 layers of 26.9 GB, and 1 GB is the maximum"),
            ({"x_box": ((-1.0, 1.0), (-1.0, 1.0))}, "64 bins of x and 64 of x\\* make 4,098 layers of 17.2 GB"),
            ({"bins": 32, "y_box": ((0.0, 1.0),) * 3}, "fewer coordinates of x"),
            ({"labels": "onehot"}, "Unknown labels 'onehot'. Did you mean 'one-hot'"),
            ({"activation": "rely"}, "Unknown activation 'rely'. Did you mean 'relu'"),
            ({"bins": 2.5}, "bins is 2.5. It must be an integer"),
            ({"labels": "one-hot", "classes": 2.5}, "classes is 2.5. It must be an integer"),
            ({"labels": "classes", "bins": 2, "examples": 3}, "3 examples do not fit into 2 bins"),
            ({"epsilon": 0.618}, "epsilon is 0.618, and at 0.6180 the layers have no inverse"),
            ({"lr": "fast"}, "lr is fast"),
            ({"x_box": (-1.0, 1.0)}, "x_box is \\(-1.0, 1.0\\). Give a tuple with a range"),
            ({"x_box": [[-1.0, 1.0]]}, "x_box is \\[\\[-1.0, 1.0\\]\\]. Give a tuple"),
            ({"y_box": ()}, "y_box is \\(\\). Give a tuple"),
            ({"examples": 9}, "9 examples do not fit into 8 bins"),
            ({"lr": 0.0}, "lr is 0.0"),
            ({"epsilon": float("nan")}, "epsilon is nan"),
            ({"y_box": ((1.0, 1.0),)}, "y_box has the range"),
            ({"labels": "classes", "activation": "relu"}, "signals below 0"),
            ({"labels": "one-hot", "classes": 1}, "classes is 1"),
        ],
    )
    def test_plans(self, options: Any, said: str) -> None:
        plan = object.__new__(Plan)  # our strict types in tests would refuse some before the plan does
        for field in dataclasses.fields(Plan):
            object.__setattr__(plan, field.name, options.get(field.name, field.default))
        with pytest.raises(FewstepError, match=said):
            plan.__post_init__()

    @pytest.mark.parametrize(
        ("target", "said"),
        [
            (lambda x, y, s: jnp.zeros(3), "shape \\(3,\\).*must give 1 number"),
            (lambda x, y, s: jnp.where(s > 0, jnp.nan, y[0]), "gives \\[nan\\] at x = "),
            (lambda x, y: y, "fails with TypeError"),
            (lambda x, y, s: "three", "must give 1 number"),
            (lambda x, y, s: [0.5][int(s[0] > 0)], "at x = .*, x\\* = \\[0.5\\], fails with IndexError"),
            (lambda x, y, s: np.zeros(1 + int(s[0] > 0)), "shape \\(2,\\).*must give 1 number"),
        ],
    )
    def test_targets(self, target: Any, said: str) -> None:
        with pytest.raises(FewstepError, match=said):
            construct(target, Plan(bins=2))

    @pytest.mark.parametrize(
        ("x", "y", "said"),
        [
            ([[0.5], [-0.5]], [[0.5], [1.5]], "y is \\[0.5, 1.5\\] in coordinate 0.*made for -1 to 1"),
            ([[0.5], [-2.0]], [[0.5], [0.5]], "x is \\[0.5, -2.0\\]"),
            ([[0.5], [0.6]], [[0.5], [0.5]], "fall into the bins \\[1, 1\\]"),
            ([[0.5]], [[0.5]], "x has shape \\(1, 1\\)"),
            ([[0.5], [np.nan]], [[0.5], [0.5]], "x is \\[0.5, nan\\]"),
        ],
    )
    def test_examples(self, x: Any, y: Any, said: str) -> None:
        built = construct(nearest_neighbor, Plan(bins=2, examples=2))
        with pytest.raises(FewstepError, match=said):
            built.learn(x, y, [[0.0]])

    def test_questions_and_labels(self) -> None:
        built = construct(nearest_neighbor, Plan(bins=2, examples=2))
        for asked, said in (([[3.0]], "x_star is \\[3.0\\]"), ([[np.nan]], "x_star is"), ([0.5], "x_star has shape")):
            with pytest.raises(FewstepError, match=said):
                built.learn([[0.5], [-0.5]], [[0.5], [0.5]], asked)
        for name, y in (("counts", np.full((4, 3), 0.5)), ("classes", np.array([0, 7]))):
            plan = PLANS[name]
            with pytest.raises(FewstepError, match="labels of 3 classes"):
                construct(_any, plan).learn(plan.centers()[np.arange(plan.examples) % plan.J], y, plan.centers())

    def test_a_table_that_is_too_large(self) -> None:
        with pytest.raises(FewstepError, match="readout='mlp'"):
            construct(nearest_neighbor, Plan(bins=8, examples=5))

    def test_names_and_files_of_targets(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text("def twice(x, y, x_star):\n    return 2 * y[0]\nnumber = 3\n")
        (tmp_path / "broken.py").write_text("1 / 0\n")
        assert target_of("ridge") is ridge
        assert target_of(f"{tmp_path}/mine.py:twice")(np.ones((1, 1)), np.ones((1, 1)), np.ones(1)) == 2
        for text, said in {
            "rigde": "Did you mean 'ridge'", f"{tmp_path}/none.py:f": "There is no file",
            f"{tmp_path}/mine.py:thrice": "has no thrice", f"{tmp_path}/mine.py:number": "def number",
            f"{tmp_path}/broken.py:f": "ZeroDivisionError",
        }.items():  # fmt: skip
            with pytest.raises(FewstepError, match=said):
                target_of(text)


class TestCommand:
    @pytest.mark.slow
    def test_reproduce(self, tmp_path: Path, capsys: Any) -> None:
        out = tmp_path / "out"
        args = ("reproduce", "universality", "--quick", "--bins", "2", "--target", "ridge", "--out", str(out))
        code, shown, _ = output(capsys, *args, "--json")
        assert code == 0
        result = json.loads(shown)
        assert {row["verdict"] for row in result["rows"]} <= {"meets", "-"}
        assert (out / "report.html").read_text().count("<figure") == 3
        assert result["command"] == "fewstep reproduce universality --quick --bins 2 --target ridge"

    @pytest.mark.slow
    def test_more_examples(self, tmp_path: Path, capsys: Any) -> None:
        """Each has a bin of its own, in the series of bins and in the pictures too."""
        args = ("--quick", "--examples", "4", "--target", "nearest-neighbor", "--json", "--out", str(tmp_path / "out"))
        code, shown, error = output(capsys, "reproduce", "universality", *args)
        assert code == 0, error
        result = json.loads(shown)
        assert [row["bins"] for row in result["rows"] if "bins" in row] == [4]
        assert "4 examples" in result["protocol"]
        assert "misses" not in {row["verdict"] for row in result["rows"]}

    def test_pictures_put_examples_into_bins_apart(self) -> None:
        for examples in range(1, 9):
            plan = Plan(bins=8, examples=examples)
            places = [x for x, _ in _figures._others(plan)]
            bins = {int(plan.bin_of(jnp.asarray(x)[None])[0]) for x in places}
            assert len(bins) == examples - 1
        assert UniversalityOptions(bins=8).series(3) == (4, 8)

    def test_mistakes_are_told_in_a_line(self, tmp_path: Path, capsys: Any) -> None:
        for more, said in {
            ("--examples", "9"): "9 examples do not fit into 8 bins",
            ("--steps", "3"): "--steps does not apply to universality", ("--bins", "0"): "bins is 0",
            ("--target", "ridgy"): "Did you mean 'ridge'", ("--examples", "0"): "examples is 0",
        }.items():  # fmt: skip
            code, _, error = output(capsys, "reproduce", "universality", *more, "--out", str(tmp_path / "other"))
            assert (code, said in error) == (2, True)


def test_flows_tell_where_information_is() -> None:
    """Before the step the bar block is empty at every layer; after it, only where x* meets its pair."""
    built = construct(ridge, SMALL)
    before, after = checks.flows(built, np.array([[-0.9]]), np.array([[1.0]]), np.array([[0.9]]))
    assert jnp.abs(before.bar).max() == 0
    last = run_layers(SMALL.shape, built.meta["weights"], jnp.array([[0.9]]))[0]
    assert jnp.abs(last.bar).max() == 0
    assert int(jnp.argmax(after.bar[-1, 0])) == 0 + SMALL.J * 3
