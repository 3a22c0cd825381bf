"""The methods of the table: what is fitted to the training rows of a fold, and what is measured of it."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fewstep.layerwise import KernelEmbeddingClassifier, SpectralLayerClassifier, project
from fewstep_studies.reproduce._rows import Changes
from fewstep_studies.reproduce.layerwise import _measures, _sgd
from fewstep_studies.reproduce.layerwise._rows import FoldScore

NOISE = 0.02  # added to all rows before W_s sees them, as in the authors' code
WS: dict[str, Changes] = {  # the authors' choices for single sets
    "adversarial": {"smallest_bandwidth": 0.001},
    "divorce": {"smallest_bandwidth": 0.1, "n_bandwidths": 40},
}


class Fold(NamedTuple):
    """The rows of a fold: `x`, `codes` to train on, `test_x`, `test_codes` to evaluate on; `depth` is ISM's."""

    name: str
    x: np.ndarray
    codes: np.ndarray
    test_x: np.ndarray
    test_codes: np.ndarray
    seed: int
    depth: int
    epochs: int


Method = Callable[[Fold], FoldScore]


def _score(model: Any, fold: Fold, seconds: float) -> FoldScore:
    return FoldScore(model.score(fold.x, fold.codes), model.score(fold.test_x, fold.test_codes), seconds)


def ism(fold: Fold, *, balance: bool = False) -> FoldScore:
    """The spectral network, as the authors have it unless classes are to be balanced."""
    model, seconds = _fit(
        lambda: SpectralLayerClassifier(random_state=fold.seed, calibrate=False, balance=balance), fold
    )
    features = model.transform(fold.x)
    last, *_ = model._fitted.parts[0][::-1]
    below = model.transform(fold.x, layer=model.n_layers_ - 1) if model.n_layers_ > 1 else model._scaled(fold.x)
    return _with_layers(_score(model, fold, seconds), model)._replace(
        sigma=model.history_[-1].bandwidth, ours=_measures.ours(features, fold.codes),
        authors=_measures.authors(None, np.asarray(project(last, below)), features, fold.codes),
    )  # fmt: skip


def ws(fold: Fold) -> FoldScore:
    """The closed-form network, on rows with a little noise."""
    rng = np.random.default_rng(fold.seed)
    noisy = lambda x: x + NOISE * rng.standard_normal(x.shape)
    fold = fold._replace(x=noisy(fold.x), test_x=noisy(fold.test_x))
    options = WS.get(fold.name, {})
    model, seconds = _fit(lambda: KernelEmbeddingClassifier(random_state=fold.seed, calibrate=False, **options), fold)
    features = model.transform(fold.x)
    sigma = _measures.bandwidth(features, fold.codes)
    return _with_layers(_score(model, fold, seconds), model)._replace(
        sigma=min(record.bandwidth for record in model.history_), ours=_measures.ours(features, fold.codes),
        authors=_measures.authors(sigma, features, features, fold.codes, power=2),
    )  # fmt: skip


def _with_layers(score: FoldScore, model: Any) -> FoldScore:
    history = [{**record._asdict(), "seconds": round(record.seconds, 4)} for record in model.history_]
    return score._replace(layers=model.n_layers_, stopped=model.stopped_, converged=model.converged_, history=history)


def _fit(make: Callable[[], Any], fold: Fold) -> tuple[Any, float]:
    """A fitted model and the seconds it took, those of a second fit, for which everything is compiled."""
    make().fit(fold.x, fold.codes)
    begin = time.perf_counter()
    model = make().fit(fold.x, fold.codes)
    return model, time.perf_counter() - begin


def _network(loss: _sgd.Loss) -> Method:
    def fit(fold: Fold) -> FoldScore:
        scaler = StandardScaler().fit(fold.x)
        x, test_x = scaler.transform(fold.x), scaler.transform(fold.test_x)
        trained = _sgd.train(x, fold.codes, fold.depth, loss, fold.seed, fold.epochs)
        right = lambda x, codes: float(np.mean(_sgd.predict(trained, x) == codes))
        hidden = np.asarray(_sgd.hidden(trained.params, x.astype(np.float32)), np.float64)
        return FoldScore(
            right(x, fold.codes), right(test_x, fold.test_codes), trained.seconds, fold.depth,
            ours=_measures.ours(hidden, fold.codes), authors=_as_authors(trained, x, fold.codes),
            stopped=trained.why, epochs=len(trained.losses),
        )  # fmt: skip

    return fit


def _as_authors(trained: _sgd.Trained, x: np.ndarray, codes: np.ndarray) -> dict[str, float]:
    out = _sgd.outputs(trained.params, x.astype(np.float32)).astype(np.float64)
    risen = np.exp(out - out.max(1, keepdims=True))
    likely = risen / risen.sum(1, keepdims=True)
    seen = likely if trained.loss == "ce" else out.sum(1, keepdims=True)
    measures = _measures.authors(None if trained.loss == "ce" else 0.2, seen, seen, codes)
    surprise = -np.log(np.maximum(likely[np.arange(len(codes)), codes], 1e-300))
    return measures | {"MSE": float(np.mean((out.sum(1) - codes) ** 2)), "CE": float(np.mean(surprise))}


def _known(make: Callable[[int], Any]) -> Method:
    def fit(fold: Fold) -> FoldScore:
        model = make_pipeline(StandardScaler(), make(fold.seed))
        begin = time.perf_counter()
        model.fit(fold.x, fold.codes)
        return _score(model, fold, time.perf_counter() - begin)

    return fit


METHODS: dict[str, Method] = {
    "ism": ism,
    "ism-balanced": partial(ism, balance=True),
    "ws": ws,
    "sgd-ce": _network("ce"),
    "sgd-mse": _network("mse"),
    "svm": _known(lambda seed: SVC()),
    "forest": _known(lambda seed: RandomForestClassifier(random_state=seed)),
    "mlp": _known(lambda seed: MLPClassifier(random_state=seed)),
}
