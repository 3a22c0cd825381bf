"""A base to stand on: a prediction from each row alone, boosted trees or any estimator of scikit-learn."""

import base64
import io
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jaxtyping import Array

from fewstep._errors import FewstepError
from fewstep._network import Network
from fewstep.files import JSON, called, function_of
from fewstep.learners.forest import Forest, Sample, Size, evaluate_forest, fit_forest
from fewstep.tables import Rows

TREES = "trees"
_SIZE = Size(150, 16, 6)
_FOLDS = 5
_LOWEST = -5.0  # the logit of a class that is hardly possible
_MOST = 16_000_000  # bytes of a fitted base, which a run's configuration holds
Predict: TypeAlias = Callable[[Array], Array]
Kept: TypeAlias = dict[str, JSON]


class Base(NamedTuple):
    """What a base says of rows of x in a compiled program; and the network of the rows with that behind them.

    `portable` says that it can leave Python, in an exported program.
    """

    predict: Predict
    network: Callable[..., Network]
    portable: bool


class Target(NamedTuple):
    """What a base predicts: so many numbers, or logits of so many classes."""

    outputs: int
    classes: bool


def fit_base(name: str, train: Rows, validation: Rows, target: Target, *, seed: int) -> Kept:
    """Fits a base to all rows of the training tasks, and gives it as text: `name` is `trees` or FILE.py:FUNCTION, which
    makes an estimator of scikit-learn. Trees stop where they are best on the validation tasks."""
    if len(train.names) < 2:
        raise FewstepError(
            f"`base` is {name!r}, and there is one training task. A base needs two or more: leave it out."
        )
    if name == TREES:
        forest, count = fit_forest(sample_of(train), sample_of(validation), **target._asdict(), seed=seed, size=_SIZE)
        return {"trees": count, "forest": _text(_packed(forest))}
    model = _fitted(name, train.x, train.y)
    return {"estimator": type(model).__name__, "skops": _text(_dump(name, model))}


def out_of_fold(name: str, kept: Kept, rows: Rows, target: Target, *, seed: int) -> np.ndarray:
    """What a base says of each row of the training tasks if it is fitted without the row's task."""

    def fit(which: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        if name == TREES:
            some = Sample(*(part[which] for part in sample_of(rows)))
            trees: Any = max(1, int(kept["trees"]))
            forest, _ = fit_forest(some, None, **target._asdict(), trees=trees, seed=seed, size=_SIZE)
            return lambda x: np.asarray(_evaluate(forest, x))
        model = _fitted(name, rows.x[which], rows.y[which])
        return lambda x: _said(model, x, target)

    return by_fold(rows, target.outputs, fit, seed)


def by_fold(
    rows: Rows, outputs: int, fit: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]], seed: int
) -> np.ndarray:
    """What is said of each row by a fit to other tasks, or other groups: `fit(which)` is a fit to some of the rows."""
    units = rows.units
    count = int(units.max()) + 1
    fold = np.repeat((np.random.default_rng(seed).permutation(count) % min(_FOLDS, count))[units], rows.counts)
    said = np.zeros((len(rows.x), outputs), np.float32)
    for number in range(fold.max() + 1):
        said[fold == number] = fit(fold != number)(rows.x[fold == number])
    return said


def read_base(kept: Kept, target: Target, network: Callable[..., Network]) -> Base:
    """The base that `fit_base` gave as text."""
    if "forest" in kept:
        with np.load(io.BytesIO(_bytes(kept["forest"])), allow_pickle=False) as file:
            forest: Forest = {name: file[name] for name in file.files}
        return Base(lambda x: evaluate_forest(forest, x, _SIZE), network, True)
    model = _load(_bytes(kept["skops"]))

    def predict(x: Array) -> Array:
        """Outside of the compiled program, of several tasks at once."""
        say = lambda rows: _said(model, np.asarray(rows).reshape(-1, rows.shape[-1]), target).reshape(
            *rows.shape[:-1], target.outputs
        )
        shape = jax.ShapeDtypeStruct((x.shape[0], target.outputs), np.float32)
        return jax.pure_callback(say, shape, x, vmap_method="expand_dims").astype(x.dtype)

    return Base(predict, network, False)


def sample_of(rows: Rows) -> Sample:
    """All rows, each task counting alike, but for small ones."""
    weight = np.repeat(1.0 / np.maximum(rows.counts, 10), rows.counts)
    return Sample(rows.x, rows.y, weight / weight.mean())


@jax.jit
def _evaluate(forest: Forest, x: Array) -> Array:
    return evaluate_forest(forest, x, _SIZE)


def _fitted(name: str, x: np.ndarray, y: np.ndarray) -> Any:
    """The user's estimator after its fit."""
    model = called(f"{name}()", function_of("base", name, "()", {TREES: None}))
    if not hasattr(model, "fit") or not hasattr(model, "predict"):
        raise FewstepError(f"{name} returns a {type(model).__name__}. Let it return an estimator of scikit-learn.")
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    return called(f"the fit of {name}", lambda: model.fit(x, y))


def _said(model: Any, x: np.ndarray, target: Target) -> np.ndarray:
    """What an estimator says of some rows: numbers, or logarithms of the probabilities of all classes."""
    if not len(x):
        return np.zeros((0, target.outputs), np.float32)
    if not target.classes:
        return np.asarray(model.predict(x), np.float32).reshape(len(x), target.outputs)
    logits = np.full((len(x), target.outputs), _LOWEST, np.float32)
    logits[:, np.asarray(model.classes_, int)] = np.log(np.maximum(model.predict_proba(x), np.exp(_LOWEST)))
    return logits


def _dump(name: str, model: Any) -> bytes:
    skops = _skops()
    content: bytes = skops.dumps(model)
    if foreign := _foreign(skops, content):
        raise FewstepError(
            f"{name} makes an estimator with the type {foreign[0]}, which cannot be kept with a run. Use estimators of "
            "scikit-learn, in a Pipeline if you like."
        )
    return content


def _load(content: bytes) -> Any:
    """The estimator; nothing but types of scikit-learn is made, whatever the file says."""
    skops = _skops()
    if foreign := _foreign(skops, content):
        raise FewstepError(f"The run's base has the type {foreign[0]}, which is not of scikit-learn. It is not loaded.")
    return skops.loads(content, trusted=skops.get_untrusted_types(data=content))


def _foreign(skops: Any, content: bytes) -> list[str]:
    return [name for name in skops.get_untrusted_types(data=content) if not name.startswith("sklearn.")]


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise FewstepError("A base of your own is kept by skops: pip install 'fewstep[sklearn]'.") from None
    return skops.io


def _packed(forest: Forest) -> bytes:
    file = io.BytesIO()
    np.savez(file, **forest)
    return file.getvalue()


def _text(content: bytes) -> str:
    text = base64.b85encode(zlib.compress(content, 9)).decode()
    if len(text) > _MOST:
        raise FewstepError(
            f"The fitted base takes {len(text) / 1e6:.0f} MB, and a run keeps at most {_MOST / 1e6:.0f}. Make it "
            "smaller: fewer trees, or fewer leaves."
        )
    return text


def _bytes(text: JSON) -> bytes:
    unpacked = zlib.decompressobj()
    return unpacked.decompress(base64.b85decode(str(text)), 20 * _MOST)
