"""Networks learned layer by layer: the mathematics against plain formulas, the estimators against scikit-learn."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.metrics import silhouette_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

import fewstep
from fewstep._kernels import (
    alignment,
    best_bandwidth,
    center,
    draw_waves,
    gaussian,
    hsic,
    linear_alignment,
    matrix_of,
    random_features,
    residual,
    scatter_ratio,
    silhouette,
    solve,
    trace_ratio,
)
from fewstep.layerwise import KernelEmbeddingClassifier, SpectralLayerClassifier, claims, load, sets
from fewstep.layerwise._checks import standardize
from fewstep.layerwise._embedding import embed
from fewstep.layerwise._embedding import forward as embedded
from fewstep.layerwise._rows import _draw_order, cut, fit_block, pad
from fewstep.layerwise.spectral import narrow

KINDS = (SpectralLayerClassifier, KernelEmbeddingClassifier)
both = pytest.mark.parametrize("kind", KINDS, ids=["spectral", "embedding"])
first = pytest.mark.parametrize("kind", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.slow)], ids=["1", "2"])


@pytest.fixture(autouse=True)
def _doubles() -> Any:
    with jax.enable_x64(True):
        yield


def small(kind: Any, **options: Any) -> Any:
    """An estimator that compiles and fits quickly; parameters of any type reach it, as from a grid."""
    sizes: dict[str, Any] = {"n_features": 20} if kind is SpectralLayerClassifier else {"n_bandwidths": 5}
    return kind(max_layers=2, calibrate=False, random_state=0, **sizes).set_params(**options)


def blobs(rows: int = 60, classes: int = 3, columns: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % classes
    return rng.standard_normal((rows, columns)) + 3 * rng.standard_normal((classes, columns))[y], y


def one_hot(y: np.ndarray) -> jax.Array:
    return jnp.eye(int(y.max()) + 1)[y]


def plain_kernel(x: np.ndarray, sigma: float) -> np.ndarray:
    return np.exp(-np.square(x[:, None] - x[None]).sum(-1) / (2 * sigma**2))


class TestMathematics:
    def test_hsic_is_the_trace_with_centring_matrices(self) -> None:
        x, y = blobs(30)
        labels, h = np.asarray(one_hot(y)), np.eye(30) - 1 / 30
        expected = np.trace(plain_kernel(x, 1.5) @ h @ labels @ labels.T @ h)
        for size in (30, 10, 1):
            assert np.isclose(hsic(jnp.asarray(x), center(jnp.asarray(labels)), jnp.asarray(1.5), size), expected)

    @pytest.mark.slow
    def test_alignments_are_those_of_centered_matrices(self) -> None:
        x, y = blobs(24)
        labels, h = np.asarray(one_hot(y)), np.eye(24) - 1 / 24
        kernel, of_labels = plain_kernel(x, 2.0), labels @ labels.T
        cosine = lambda a, b: np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b)
        for size in (24, 8):
            found = alignment(lambda a, b: gaussian(a, b, jnp.asarray(2.0)), jnp.asarray(x), jnp.asarray(labels), size)
            assert np.isclose(found.normalized, cosine(h @ kernel, h @ of_labels))
            assert np.isclose(found.cka, cosine(h @ kernel @ h, h @ of_labels @ h))
        found = linear_alignment(jnp.asarray(x), jnp.asarray(labels))
        assert np.isclose(found.normalized, cosine(h @ x @ x.T, h @ of_labels))
        assert np.isclose(found.cka, cosine(h @ x @ x.T @ h, h @ of_labels @ h))

    @pytest.mark.slow
    def test_padding_counts_for_nothing(self) -> None:
        x, y = blobs(20)
        labels = one_hot(y)
        more_x, more = jnp.asarray(pad(x + 5, 32)), jnp.asarray(pad(np.asarray(labels), 32))
        kernel = lambda a, b: gaussian(a, b, jnp.asarray(2.0))
        x = jnp.asarray(x + 5)
        assert np.allclose(alignment(kernel, x, labels, 20), alignment(kernel, more_x, more, 16))
        assert np.isclose(silhouette(x, labels, 20), silhouette(more_x, more, 8))
        assert np.isclose(scatter_ratio(x, labels, 20), scatter_ratio(more_x, more, 8))
        assert np.isclose(trace_ratio(x, labels), trace_ratio(more_x, more))
        assert np.isclose(best_bandwidth(x, center(labels)), best_bandwidth(more_x, center(more)))

    def test_silhouette_is_scikit_learns(self) -> None:
        x, y = blobs(40)
        y[0] = 3  # a class of one row
        assert np.isclose(silhouette(jnp.asarray(x), one_hot(y), 40), silhouette_score(x, y))
        assert silhouette(jnp.asarray(x), jnp.ones((40, 1)), 40) == 0  # there is no other class

    def test_scatter_is_that_of_the_class_means(self) -> None:
        x, y = blobs(30)
        means = np.stack([x[y == code].mean(0) for code in range(3)])
        within = np.square(x - means[y]).sum()
        between = sum((y == code).sum() * np.square(means[code] - x.mean(0)).sum() for code in range(3))
        assert np.isclose(trace_ratio(jnp.asarray(x), one_hot(y)), within / between)
        apart, same = np.sqrt(np.square(x[:, None] - x[None]).sum(-1)), y[:, None] == y[None]
        assert np.isclose(scatter_ratio(jnp.asarray(x), one_hot(y), 10), apart[same].sum() / apart[~same].sum())

    def test_balance_makes_classes_count_alike(self) -> None:
        y = np.repeat([0, 1], [30, 6])
        plain, even = center(one_hot(y)), center(one_hot(y), balance=True)
        share = lambda labels, code: float(jnp.sum(labels[:, code] ** 2))
        assert np.isclose(share(plain, 0), share(plain, 1))
        assert share(even, 1) > 4 * share(even, 0)
        again = center(one_hot(np.arange(36) % 2), balance=True)
        assert np.allclose(again, center(one_hot(np.arange(36) % 2)))

    @pytest.mark.slow
    def test_the_bandwidth_is_the_best_of_all(self) -> None:
        x, y = blobs(50)
        centered = center(one_hot(y))
        value = lambda sigma: float(hsic(jnp.asarray(x), centered, jnp.asarray(sigma), 50))
        found = float(best_bandwidth(jnp.asarray(x), centered))
        assert value(found) >= max(value(sigma) for sigma in np.geomspace(0.02, 50, 200)) * (1 - 1e-6)

    def test_random_features_are_the_kernel_in_the_mean(self) -> None:
        x, _ = blobs(15)
        waves = draw_waves(np.random.default_rng(0), 4, 20000, np.dtype("float64"))
        made = random_features(jnp.asarray(x), waves, jnp.asarray(2.0))
        assert np.abs(np.asarray(made @ made.T) - plain_kernel(x, 2.0)).max() < 0.04

    def test_the_slope_of_hsic_is_the_matrix_of_the_spectral_method(self) -> None:
        x, y = blobs(30)
        x, centered, sigma = jnp.asarray(x), center(one_hot(y)), jnp.asarray(2.0)
        weight = jnp.linalg.qr(jax.random.normal(jax.random.key(0), (4, 2)))[0]
        slope = jax.grad(lambda w: hsic(x @ w, centered, sigma, 30))(weight)
        matrix, value = matrix_of(x, centered, sigma, None, 10)(weight)
        assert np.allclose(slope, -2 / sigma**2 * matrix @ weight)
        assert np.isclose(value, hsic(x @ weight, centered, sigma, 30))

    def test_random_features_stand_for_the_kernel_in_the_spectral_method(self) -> None:
        x, y = blobs(30)
        x, centered, sigma = jnp.asarray(x), center(one_hot(y)), jnp.asarray(3.0)
        weight = jnp.eye(4)[:, :2]
        waves = draw_waves(np.random.default_rng(0), 2, 8000, np.dtype("float64"))
        exact, value = matrix_of(x, centered, sigma, None, 30)(weight)
        rough, about = matrix_of(x, centered, sigma, waves, 15)(weight)
        assert np.linalg.norm(rough - exact) < 0.1 * np.linalg.norm(exact)
        assert np.isclose(about, value, rtol=0.1)
        features = random_features(x @ weight, waves, sigma)
        psi = (features @ features.T) * (centered @ centered.T)
        direct = x.T @ (jnp.diag(jnp.sum(psi, 1)) - psi) @ x
        assert rough.dtype == x.dtype
        assert np.linalg.norm(rough - direct) < 1e-5 * np.linalg.norm(direct)  # of single precision, and no more

    def test_the_spectral_method_ends_at_its_fixed_point(self) -> None:
        x, y = blobs(60)
        x, centered, sigma = jnp.asarray(x), center(one_hot(y)), jnp.asarray(3.0)
        found = solve(x, centered, sigma, jnp.asarray(2), None, 60)
        weight = found.weight[:, :2]
        matrix, value = matrix_of(x, centered, sigma, None, 60)(weight)
        assert float(residual(matrix, weight)) < 0.05
        assert np.allclose(weight.T @ weight, np.eye(2))
        others = np.random.default_rng(0).standard_normal((200, 4, 2))
        assert all(value > hsic(x @ jnp.linalg.qr(other)[0], centered, sigma, 60) for other in others)

    def test_the_closed_form_is_the_normed_mean_of_a_class_in_the_kernels_space(self) -> None:
        x, y = blobs(30)
        kernel, labels = plain_kernel(x, 1.0), np.asarray(one_hot(y))
        norms = [np.sqrt(kernel[np.ix_(y == code, y == code)].sum()) for code in range(3)]
        wrong = np.zeros((30, 3))
        wrong[4, y[4]] = 1
        layer = embed(jnp.asarray(x), jnp.asarray(labels), jnp.asarray(wrong), None, jnp.asarray(1.0), 10)
        expected = np.concatenate([kernel @ labels / norms, kernel @ wrong], 1)
        assert np.allclose(embedded(layer, jnp.asarray(x), 15), expected)

    @pytest.mark.slow
    def test_a_kernel_that_is_constant_is_aligned_with_nothing(self) -> None:
        for dtype in (np.float64, np.float32):
            labels, one = one_hot(np.arange(8) % 2).astype(dtype), jnp.asarray(1.0, dtype)
            found = alignment(lambda a, b, one=one: gaussian(a, b, one), jnp.ones((8, 2), dtype), labels, 8)
            assert (float(found.normalized), float(found.cka)) == (0, 0)

    def test_rows_are_cut_within_the_memory(self) -> None:
        whole = cut(1000, 1000, 500, 8)
        assert whole == (1024, 1024, 0)
        assert fit_block(4096, 500, 8) == 2048
        assert fit_block(7, 500, 8) == 7
        parts = cut(100_000, 2000, 100, 8)
        assert parts.rows >= 100_000
        assert parts.rows % parts.size == 0
        assert parts.size * 2000 * 8 * 4 <= 100e6


class TestEstimators:
    @first
    @pytest.mark.parametrize("calibrate", [False, True], ids=["plain", "calibrated"])
    @pytest.mark.slow
    def test_scikit_learns_own_checks(self, kind: Any, calibrate: bool) -> None:
        """In a process of its own: an estimator must take anything and check it in `fit`, which our strict types in
        tests do not allow."""
        options = "n_features=20" if kind is SpectralLayerClassifier else "n_bandwidths=5"
        script = f"""
from sklearn.utils.estimator_checks import check_estimator
from fewstep.layerwise import {kind.__name__}
told = check_estimator({kind.__name__}(max_layers=1, calibrate={calibrate}, {options}), on_skip=None, on_fail=None)
print(len(told), [check["check_name"] for check in told if check["status"] == "failed"])
"""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        count, failed = done.stdout.split(maxsplit=1)
        assert int(count) > 50
        assert failed.strip() == "[]"

    @first
    @pytest.mark.slow
    def test_learns_wine(self, kind: Any) -> None:
        x, y = load_wine(return_X_y=True)
        model = kind(random_state=0, max_layers=4).fit(x[::2], y[::2])
        assert model.score(x[1::2], y[1::2]) > 0.93
        made = model.predict_proba(x[1::2])
        assert np.allclose(made.sum(1), 1)
        assert np.array_equal(model.classes_[made.argmax(1)], model.predict(x[1::2]))
        surprise = -np.log(made[np.arange(len(made)), y[1::2]]).mean()
        assert surprise < 0.35  # of three classes, log 3 = 1.1 tells nothing

    @pytest.mark.slow
    def test_the_exact_and_the_rough_way_agree(self) -> None:
        x, y = blobs(120)
        for kind in KINDS:
            exact = small(kind, max_layers=1).fit(x, y)
            rough = small(kind, max_layers=1, exact_rows=50, kernel_features=512).fit(x, y)
            assert np.mean(exact.predict(x) == rough.predict(x)) > 0.85

    @pytest.mark.slow
    def test_blocks_change_nothing(self) -> None:
        x, y = blobs(130)
        for kind in KINDS:
            whole, parts = small(kind).fit(x, y), small(kind, memory=0.3).fit(x, y)
            assert np.allclose(whole.transform(x), parts.transform(x), atol=0.01, rtol=0)

    @pytest.mark.slow
    def test_history_tells_of_each_layer(self) -> None:
        x, y = blobs()
        model = small(SpectralLayerClassifier, stop="hsic").fit(x, y)
        assert len(model.history_) == model.n_layers_ == len(model.weights_)
        last = model.history_[-1]
        assert 0 < last.hsic <= 1
        assert last.bandwidth > 0
        assert last.seconds > 0
        assert model.transform(x).shape == (60, 20)
        assert np.array_equal(model.transform(x), model.transform(x, layer=model.n_layers_))
        assert model.converged_ == ("above" in model.stopped_)
        for weight in model.weights_:
            assert np.allclose(weight.T @ weight, np.eye(weight.shape[1]))
        assert small(SpectralLayerClassifier, width=np.int64(2)).fit(x, y).history_[0].width == 2
        with pytest.raises(fewstep.FewstepError, match=r"layer=9, but this network has the layers 1 to"):
            model.transform(x, layer=9)

    def test_columns_of_any_layer_have_names(self) -> None:
        """The closed form's first layer has half as many columns as the others."""
        x, y = blobs()
        model = small(KernelEmbeddingClassifier, enough=1.0, bandwidth=1.0).set_output(transform="pandas").fit(x, y)
        assert model.n_layers_ == 2
        for layer, count in ((1, 3), (2, 6), (None, 6)):
            made = model.transform(x, layer=layer)
            assert made.columns.tolist() == [f"kernelembeddingclassifier{number}" for number in range(count)]
        assert np.array_equal(model.transform(x, layer=np.int64(2)), model.transform(x))
        assert model.get_feature_names_out().size == 6
        for layer in (0, 3, 1.5, "1", True):
            with pytest.raises(fewstep.FewstepError, match=f"layer={layer!r}, but this network has the layers 1 to 2"):
                model.transform(x, layer=layer)

    def test_calibration_tells_of_its_layers(self) -> None:
        x, y = blobs()
        told: list[tuple[int, bool]] = []
        model = small(SpectralLayerClassifier, calibrate=True, max_layers=1)
        model._watch = lambda number, record, *, calibrating=False: told.append((number, calibrating))
        model.fit(x, y)
        assert told == [(1, True), (1, False)]

    @pytest.mark.slow
    def test_accepted_layers_rise(self) -> None:
        x, y = sets.adversarial()
        model = KernelEmbeddingClassifier(smallest_bandwidth=0.001, max_layers=4, calibrate=False).fit(x, y)
        told = [record.hsic for record in model.history_]
        assert all(b > a for a, b in itertools.pairwise(told))

    @both
    def test_one_seed_gives_one_network(self, kind: Any) -> None:
        x, y = blobs()
        assert np.array_equal(small(kind).fit(x, y).transform(x), small(kind).fit(x, y).transform(x))

    @pytest.mark.slow
    def test_a_bandwidth_and_a_rule_that_are_given(self) -> None:
        x, y = blobs()
        model = small(KernelEmbeddingClassifier, bandwidth=1.5, stop="silhouette").fit(x, y)
        assert model.history_[0].bandwidth == 1.5
        assert len(model.weights_) == model.n_layers_
        assert small(SpectralLayerClassifier, bandwidth=1.5, max_layers=1).fit(x, y).history_[0].bandwidth == 1.5

    def test_more_columns_than_rows_are_turned_into_fewer_and_back(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((30, 200))
        turn = narrow(x, rng)
        assert turn is not None
        assert turn.shape == (200, 64)
        assert np.allclose(x @ turn @ turn.T, x)
        assert narrow(x[:, :64], rng) is None

    def test_test_rows_are_scaled_with_the_training_statistics(self) -> None:
        x, y = blobs()
        model = small(SpectralLayerClassifier).fit(x, y)
        assert np.allclose(model.transform(x)[:1], model.transform(x[:1]))

    @pytest.mark.slow
    def test_pipelines_grids_and_clones(self) -> None:
        x, y = blobs()
        search = GridSearchCV(make_pipeline(StandardScaler(), small(SpectralLayerClassifier)),
                              {"spectrallayerclassifier__width": [1, 2]}, cv=2)  # fmt: skip
        assert search.fit(x, y).best_score_ > 0.8
        copy = clone(search.best_estimator_)
        assert copy.get_params()["spectrallayerclassifier"].n_features == 20

    @pytest.mark.slow
    def test_float32_is_near(self) -> None:
        x, y = blobs()
        model = small(SpectralLayerClassifier, dtype="float32").fit(x, y)
        assert model.transform(x).dtype == np.float32
        assert model.score(x, y) > 0.9

    @pytest.mark.parametrize(
        ("kind", "labels"), [(KINDS[0], "numbers"), (KINDS[1], "text"), (KINDS[0], "objects")], ids=["1", "2", "3"]
    )
    def test_saved_and_read_without_pickle(self, kind: Any, labels: str, tmp_path: Path) -> None:
        x, y = blobs()
        names = {"numbers": np.array([3, 5, 9]), "text": np.array(["a", "b", "c"]),
                 "objects": np.array(["a", "b", "c"], object)}[labels]  # fmt: skip
        model = small(kind, calibrate=True).fit(x, names[y])
        again = load(model.save(tmp_path / "model"))
        assert np.array_equal(again.predict(x), model.predict(x))
        assert np.array_equal(again.predict_proba(x), model.predict_proba(x))
        assert again.predict(x).dtype == model.predict(x).dtype
        assert again.get_params() == model.get_params()
        assert again.history_ == model.history_
        with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
            assert all(file[name].dtype != object for name in file.files)

    def test_a_damaged_file_is_refused(self, tmp_path: Path) -> None:
        x, y = blobs()
        path = small(SpectralLayerClassifier).fit(x, y).save(tmp_path / "model.npz")
        path.write_bytes(path.read_bytes()[:-400])
        with pytest.raises(fewstep.FewstepError, match=r"model.npz is damaged"):
            load(path)
        with pytest.raises(fewstep.FewstepError, match=r"There is no file .*other.npz"):
            load(tmp_path / "other.npz")
        np.savez(tmp_path / "foreign.npz", x=x)
        with pytest.raises(fewstep.FewstepError, match=r"not a saved layer-wise network"):
            load(tmp_path / "foreign.npz")


class TestHardInput:
    @both
    def test_constant_columns_are_harmless(self, kind: Any) -> None:
        x, y = blobs()
        wider = np.concatenate([x, np.full((60, 1), 7.3)], 1)
        assert small(kind).fit(wider, y).score(wider, y) > 0.9

    def test_the_unit_of_a_column_does_not_matter(self) -> None:
        x, y = blobs()
        tiny = small(SpectralLayerClassifier).fit(1e-13 * x, y)
        assert np.allclose(tiny.transform(1e-13 * x), small(SpectralLayerClassifier).fit(x, y).transform(x))
        rounding = np.full((60, 1), 1e6) + 1e-9 * (np.arange(60) % 3 == 0)[:, None]
        assert np.ptp(rounding) > 0
        assert standardize(rounding)[1] == 1

    @both
    def test_a_rare_class_is_learned(self, kind: Any) -> None:
        """Five of 2,000 rows, none of them among the 200 that are drawn for the bandwidth."""
        rng = np.random.default_rng(0)
        y = (np.arange(2000) < 5).astype(int)
        x = rng.standard_normal((2000, 4)) + 4 * y[:, None]
        model = small(kind, max_layers=1, exact_rows=300, kernel_features=128).fit(x, y)
        assert model.history_[0].bandwidth > 0.5
        assert model.history_[0].silhouette > 0.3
        assert model.predict(np.full((1, 4), 4.0)) == 1
        assert np.mean(model.predict(x) == y) > 0.9

    def test_rows_are_drawn_as_ever_unless_a_class_is_missing(self) -> None:
        drawn = lambda labels, most: _draw_order(labels, np.random.default_rng(0), most)
        order = np.random.default_rng(0).permutation(1000)
        even, rare = np.eye(4)[np.arange(1000) % 4], np.eye(2)[(np.arange(1000) == order[999]).astype(int)]
        assert np.array_equal(drawn(even, 200), order)
        assert np.array_equal(drawn(rare, 1000), order)
        found = drawn(rare, 200)
        assert order[999] in found[:2]
        assert sorted(found) == sorted(order)

    @both
    def test_one_class_is_refused(self, kind: Any) -> None:
        x, _ = blobs()
        with pytest.raises(fewstep.FewstepError, match=r"y has only one class, .*Give two or more"):
            small(kind).fit(x, np.zeros(60))

    def test_nan_is_refused_with_its_place(self) -> None:
        x, y = blobs()
        x[3, 2] = np.nan
        with pytest.raises(fewstep.FewstepError, match=r"NaN: 1 of 60 rows, the first is row 3 at column 2"):
            small(SpectralLayerClassifier).fit(x, y)

    @both
    @pytest.mark.slow
    def test_a_class_of_one_row(self, kind: Any) -> None:
        x, y = blobs()
        y[0] = 3
        model = kind(max_layers=2, random_state=0).fit(x, y)
        assert model.predict_proba(x).shape == (60, 4)
        assert np.isfinite(model.predict_proba(x)).all()

    @both
    def test_equal_rows_with_different_labels(self, kind: Any) -> None:
        x, y = blobs(30, classes=2)
        twice, labels = np.concatenate([x, x]), np.concatenate([y, 1 - y])
        model = small(kind).fit(twice, labels)
        assert np.isfinite(model.transform(twice)).all()
        assert model.score(twice, labels) == pytest.approx(0.5, abs=0.05)

    @pytest.mark.parametrize(("kind", "dtype"), [(KINDS[0], "float32"), (KINDS[1], "float64")], ids=["1", "2"])
    def test_rows_that_are_all_equal(self, kind: Any, dtype: str) -> None:
        model = small(kind, dtype=dtype).fit(np.full((20, 3), 0.1), np.arange(20) % 2)
        assert np.isfinite(model.predict_proba(np.full((4, 3), 0.1))).all()

    @both
    def test_text_as_labels(self, kind: Any) -> None:
        x, y = blobs()
        model = small(kind).fit(x, np.array(["red", "green", "blue"])[y])
        assert set(model.predict(x)) <= {"red", "green", "blue"}

    def test_sparse_rows_are_refused(self) -> None:
        from scipy.sparse import csr_matrix

        x, y = blobs()
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            small(SpectralLayerClassifier).fit(csr_matrix(x), y)

    @both
    def test_more_columns_than_rows(self, kind: Any) -> None:
        rng = np.random.default_rng(0)
        y = np.arange(20) % 2
        x = rng.standard_normal((20, 50))
        x[:, :5] += 3 * y[:, None]
        assert small(kind).fit(x, y).score(x, y) > 0.9

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"max_layers": 0}, "max_layers=0. It must be an integer of at least 1"),
            ({"n_features": 2.5}, "n_features=2.5. It must be an integer"),
            ({"stop": "soon"}, "Unknown stop 'soon'"),
            ({"dtype": "float16"}, "Unknown dtype 'float16'"),
            ({"bandwidth": -1.0}, "bandwidth (other than 'hsic')=-1.0"),
            ({"bandwidth": "wide"}, "bandwidth (other than 'hsic')='wide'"),
            ({"width": 1.5}, "width=1.5"),
            ({"memory": 0}, "memory=0"),
        ],
    )
    def test_parameters_that_cannot_be(self, options: dict[str, Any], message: str) -> None:
        x, y = blobs()
        with pytest.raises(fewstep.FewstepError) as caught:
            small(SpectralLayerClassifier, **options).fit(x, y)
        assert message in str(caught.value)


class TestClaims:
    def test_rising_tells_what_was_refused_and_where_it_stalls(self) -> None:
        told = claims.rising(*sets.random_labels(), random_state=0)
        assert len(told.dependence) == len(told.refused) < 29
        assert told.dependence == sorted(told.dependence)
        assert told.dependence[-1] < 0.5
        assert sum(told.refused) > 0
        assert not told.converged
        assert told.refused_at_the_end == 20  # all that there are
        assert told.why == f"none of 20 bandwidths raises HSIC above {told.dependence[-1]:.3f}"

    def test_depths_are_those_of_the_two_networks(self) -> None:
        x, y = blobs()
        of_spectral, of_embedding = small(KINDS[0], max_layers=1).fit(x, y), small(KINDS[1], enough=1.0).fit(x, y)
        assert claims.depths(of_spectral, of_embedding) == (1, of_embedding.n_layers_)

    @pytest.mark.slow
    def test_layer_by_layer_scatter_squares_and_entropy_fall(self) -> None:
        x, y = sets.random_labels()
        model = SpectralLayerClassifier(random_state=0, calibrate=False).fit(x, y)
        told = claims.by_layer(model, x, y)
        assert told[-1].dependence > 0.95
        assert told[-1].scatter < 0.1 < told[0].scatter
        assert told[-1].squares < told[0].squares
        assert told[-1].entropy < told[0].entropy
        assert told[-1].from_blocks < 0.3 < told[0].from_blocks
        last = claims.kernels(model, x, y)[-1]
        codes = np.sort(y)
        assert np.isclose(np.linalg.norm(last - (codes[:, None] == codes)) / np.linalg.norm(codes[:, None] == codes),
                          told[-1].from_blocks)  # fmt: skip

    @pytest.mark.slow
    def test_the_slope_at_the_closed_form_is_not_zero_and_at_the_fixed_point_it_is(self) -> None:
        x, y = blobs(90)
        assert claims.slope_at_embedding(x, y)["slope"] > 0.1
        model = small(SpectralLayerClassifier, balance=False).fit(x, y)
        told = claims.fixed_point(model, x, y)
        assert told[0]["residual"] < 0.05 < claims.slope_at_embedding(x, y)["residual"]
        assert all(part["not_orthonormal"] < 1e-10 for part in told)

    @pytest.mark.slow
    def test_the_penalty_of_equation_11_has_a_square_and_its_weights_are_sums(self) -> None:
        x, y = blobs(60)
        for part in claims.penalty(small(SpectralLayerClassifier).fit(x, y), x, y):
            assert part.gap < 1e-9
            assert part.slope_gap < 1e-9
            assert part.penalty > 0
            assert part.printed_gap < 1e-9  # classes of one size
        y = np.where(np.arange(60) < 44, 0, y)  # two small classes, between which Gamma is positive
        (part,) = claims.penalty(small(SpectralLayerClassifier, max_layers=1, balance=False).fit(x, y), x, y)
        assert part.gap < 1e-9 < part.printed_gap

    def test_the_sets_are_as_the_poster_tells(self) -> None:
        x, y = sets.adversarial()
        assert x.shape == (80, 2)
        apart = np.linalg.norm(x[:40] - x[40:], axis=1)
        assert apart.mean() < 0.02
        assert np.array_equal(np.bincount(y), [40, 40])
        x, y = sets.random_labels()
        assert x.shape == (60, 3)
        assert np.array_equal(np.bincount(y), [30, 30])
        assert sets.spiral()[0].shape == (1200, 2)


def test_a_fit_does_not_wait_for_threads_of_blas(monkeypatch: Any) -> None:
    seen: list[int] = []
    told = lambda *_, **__: seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
    monkeypatch.setattr(SpectralLayerClassifier, "_watch", told)
    with threadpool_limits(2, "blas"):
        SpectralLayerClassifier(max_layers=1, calibrate=False).fit(*blobs(30))
        assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {2}
    assert set(seen) == {1}


@first
@pytest.mark.slow
def test_many_rows_fit_within_a_limit_of_memory(kind: Any) -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "layerwise_memory.py"
    method = "spectral" if kind is SpectralLayerClassifier else "embedding"
    args = ["--method", method, "--max-layers", "1", "--kernel-features", "64", "--exact-rows", "512", "--no-calibrate"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "JAX_"))}
    done = subprocess.run([sys.executable, str(script), *args], capture_output=True, text=True, env=clean, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["rows"] == 100_000
    assert told["peak_megabytes"] < 4000


@pytest.mark.slow
def test_the_benchmark_of_memory_writes_both_fits_at_the_defaults(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "layerwise_memory.py"
    args = ["--rows", "300", "--columns", "5", "--out", str(tmp_path / "told.json")]
    done = subprocess.run([sys.executable, str(script), *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["rows"], told["columns"], told["limit_gigabytes"]) == (300, 5, 4.0)
    assert told["command"].startswith("python benchmarks/layerwise_memory.py --rows 300")
    assert "commit" in told
    for kind, part in zip(KINDS, told["fits"].values(), strict=True):
        assert part["settings"] == kind(random_state=0).get_params()
        assert 0 < part["peak_megabytes"] < 4000
        assert part["seconds"] > 0
