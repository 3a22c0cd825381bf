r"""A learned metric with cosine prototypes: a linear map of the features is meta-learned, a class is a direction.

    z(x) = f(x) + f(x) A B,        c_k = mean of z / |z| over the support of class k,
    logit_k(x) = s <z(x) / |z(x)|, c_k / |c_k|>

f is the network, A B a map that starts at zero, so that an untrained learner is the nearest class mean by cosine; the
temperature s is learned. With a small rank, A and B are thin; with rank 0, A B is one full matrix.

Where there are features of labeled rows before any training, `discriminant` gives a better start in closed form.

Reference: Chen, Liu, Kira, Wang & Huang, A Closer Look at Few-shot Classification, ICLR 2019, for cosine and
temperature; Lee & Choi, ICML 2018, for a metric that is meta-learned.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from fewstep import losses
from fewstep._episode import Batch
from fewstep._errors import FewstepError
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.learners._features import by_features, labeled, unit

_SHRINKAGE = 3.0  # best on the validation classes of CIFAR-FS and CLINC150


def metric(
    network: Network,
    features: int,
    ways: int,
    *,
    rank: Annotated[int, "Rank of the learned map; 0: full."] = 0,
    sharpness: Annotated[float, "Where the learned factor of the cosines begins."] = 10.0,
    loss: Loss = losses.cross_entropy,
) -> Learner:
    """The learner of a metric. `network` gives so many `features`, `ways` is the number of classes of a task.

    Example::

        learner = metric(conv4((28, 28, 1), None), features=64, ways=5)
    """
    if rank < 0 or sharpness <= 0:
        raise FewstepError(f"`rank` is {rank} and `sharpness` {sharpness}. The rank is 0 or more, the other above 0.")

    def init(key: Key[Array, ""]) -> Meta:
        scale = {"log_sharpness": jnp.log(jnp.asarray(sharpness))}
        if not rank:
            return {"metric": scale | {"map": jnp.zeros((features, features))}}
        down = jax.random.normal(key, (features, rank)) / features**0.5
        return {"metric": scale | {"down": down, "up": jnp.zeros((rank, features))}}

    def directions(meta: Meta, raw: Float[Array, "rows d"]) -> Float[Array, "rows d"]:
        own = meta["metric"]
        return unit(raw + (raw @ own["down"] @ own["up"] if rank else raw @ own["map"]))

    def keep(meta: Meta, raw: Float[Array, "rows d"], support: Batch) -> dict[str, Array]:
        return {"prototypes": unit(labeled(support, ways).T @ directions(meta, raw))}

    def compare(meta: Meta, memory: dict[str, Array], raw: Float[Array, "rows d"]) -> Float[Array, "rows ways"]:
        return jnp.exp(meta["metric"]["log_sharpness"]) * directions(meta, raw) @ memory["prototypes"].T

    return by_features(network, loss, init, keep, compare)


def discriminant(rows: Float[np.ndarray, "rows d"], classes: Int[np.ndarray, " rows"]) -> Float[np.ndarray, "d d"]:
    r"""The map A B under which labeled rows of features are told apart well, in closed form.

        I + A B = M (I + P),    M = ((S + c t I) / (1 + c) t)^(-1/2)

    S is the covariance of the rows around their class means, t its mean variance and c a shrinkage; P projects on the
    span of the class means, each less the mean of all, after M. It is linear discriminant analysis that keeps what the
    classes do not span, because others may.

    Reference: Fisher, The use of multiple measurements in taxonomic problems, Annals of Eugenics 1936.
    """
    _, codes = np.unique(classes, return_inverse=True)
    means = np.stack([rows[codes == code].mean(0) for code in range(codes.max() + 1)]).astype(float)
    apart = rows - means[codes]
    values, axes = np.linalg.eigh(apart.T @ apart / len(rows))
    usual = max(float(values.mean()), 1e-12)
    whitened = (axes * ((values.clip(0) / usual + _SHRINKAGE) / (1 + _SHRINKAGE)) ** -0.5) @ axes.T
    _, sizes, spanned = np.linalg.svd((means - means.mean(0)) @ whitened, full_matrices=False)
    spanned = spanned[sizes > 1e-6 * sizes.max(initial=0.0)]
    every = np.eye(rows.shape[1])
    return (whitened @ (every + spanned.T @ spanned) - every).astype(np.float32)
