r"""Two baselines that know nothing of tasks in training: a classifier of all training classes, used on a new task.

- `neighbor`: its features; a query gets the label of the support image whose features are nearest by cosine.
- `finetune`: the whole classifier with a new last layer, moved by gradient steps on the support.

Reference: the baselines of Ravi & Larochelle, Optimization as a Model for Few-Shot Learning, ICLR 2017.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from fewstep import losses
from fewstep._contract import EpisodeLoss, Init
from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep._learner import Adapted, Learner, gradient_learner
from fewstep._network import Network, flatten, unflatten
from fewstep._rule import Meta, Rule
from fewstep.learners._features import by_features, labeled, nothing, unit

_ABSENT = -2.0  # below any cosine


def neighbor(classifier: Network, features: Network, ways: int) -> Learner:
    """The nearest neighbor among the support, by the features of a classifier.

    **Arguments:** the `classifier` of all training classes, and the same network without its last layer; `ways` of a
    task. Training draws episodes whose query is labeled by the classes of the whole set: see `tasks.all_classes`.

    Example::

        learner = neighbor(conv4(image, 64), conv4(image, None), ways=5)
    """

    def keep(meta: Meta, features: Float[Array, "rows d"], support: Batch) -> dict[str, Array]:
        return {"features": unit(features), "labels": labeled(support, ways)}

    def compare(meta: Meta, memory: dict[str, Array], features: Float[Array, "rows d"]) -> Float[Array, "rows ways"]:
        near = unit(features) @ memory["features"].T
        own = memory["labels"].T[None] > 0
        return jnp.max(jnp.where(own, near[:, None], _ABSENT), axis=-1)

    inner = by_features(features, losses.cross_entropy, nothing, keep, compare)
    return Learner(_init(classifier), _loss(classifier), inner.adapt, inner.predict)


def finetune(classifier: Network, fresh: Network, rule: Rule) -> Learner:
    """Gradient steps from a classifier whose last layer was replaced by a small new one.

    **Arguments:** the `classifier` of all training classes; `fresh`, the same network with as many outputs as a task
    has classes; the `rule` of the steps, such as `maml(0.1)`.

    Example::

        learner = finetune(conv4(image, 64), conv4(image, 5), rules.maml(0.1))
    """
    inner, head = gradient_learner(fresh, rule, losses.cross_entropy), _head(classifier, fresh)
    shapes = _shapes(fresh)

    def begun(meta: Meta) -> Meta:
        """The classifier's weights, with a last layer that is 0: no class is favored before the first step."""
        zeros = {path: jnp.zeros(leaf.shape, leaf.dtype) for path, leaf in flatten(shapes).items() if path in head}
        return {"weights": unflatten(shapes, flatten(meta["weights"]) | zeros)}

    def adapt(meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...], **how: Any) -> Adapted:
        return inner.adapt(begun(meta), key, support, steps, **how)

    def predict(meta: Meta, adapted: Adapted, x: PyTree, weight: Array | None = None) -> PyTree:
        return inner.predict(begun(meta), adapted, x, weight)

    return Learner(_init(classifier), _loss(classifier), adapt, predict)


def _head(classifier: Network, fresh: Network) -> set[str]:
    """The paths of the last linear layer, which must be all that depends on the number of classes."""
    linear = [layer for layer in fresh.layers if not layer.skip]
    if not linear:
        raise FewstepError("finetune replaces a network's last linear layer, and this network has no linear layer.")
    head = {leaf.path for leaf in linear[-1].leaves}
    many, few = (flatten(_shapes(network)) for network in (classifier, fresh))
    other = {path for path in many.keys() & few.keys() if many[path].shape != few[path].shape} - head
    if other := other | (many.keys() ^ few.keys()):
        raise FewstepError(
            f"finetune replaces the last linear layer, {linear[-1].path!r}, but {', '.join(sorted(other))} too depends "
            "on the number of outputs. Let the network end in one linear layer with that many units, x @ kernel + bias."
        )
    return head


def _shapes(network: Network) -> PyTree:
    return jax.eval_shape(network.init, jax.eval_shape(lambda: jax.random.key(0)))


def _init(classifier: Network) -> Init:
    return lambda key: {"weights": classifier.init(key)}


def _loss(classifier: Network) -> EpisodeLoss:
    def loss(meta: Meta, key: Key[Array, ""], episode: Episode) -> Float[Array, ""]:
        query = episode.query
        logits, _ = classifier.apply(meta["weights"], (), query.x, query.weight)
        return losses.cross_entropy(logits, query)

    return loss
