"""Where trainings on good features start: at the map that tells the training classes apart in closed form."""

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jaxtyping import PyTree

from fewstep import learners

if TYPE_CHECKING:
    from fewstep.experiments.build import Built


def metric_start(built: "Built", metas: PyTree) -> PyTree:
    """The start of a learned metric, unless its rank is small."""
    own = metas["metric"]
    if built.problem.labeled is None or "map" not in own:
        return metas
    start = jnp.asarray(learners.discriminant(*built.problem.labeled()))
    return metas | {"metric": own | {"map": jnp.broadcast_to(start, own["map"].shape)}}


def map_start(built: "Built", metas: PyTree) -> PyTree:
    """The start of a network's linear map of the features, if it has one."""
    weights = metas.get("weights") if isinstance(metas, dict) else None
    if built.problem.labeled is None or not isinstance(weights, dict) or "map" not in weights:
        return metas
    own = weights["map"]
    start = jnp.asarray(learners.discriminant(*built.problem.labeled()))
    kernel = jnp.broadcast_to(jnp.eye(len(start)) + start, own["kernel"].shape)
    return metas | {"weights": weights | {"map": own | {"kernel": kernel}}}
