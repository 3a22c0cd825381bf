"""Boosted trees by scikit-learn's `HistGradientBoosting*`."""

from typing import Any

import numpy as np

from fewstep._errors import FewstepError
from fewstep.learners._boosting import MANY, PATIENCE, PENALTY, RATE, Boosted, Sample, Size, Tree


def boost(train: Sample, validation: Sample | None, classes: int, trees: int, seed: int, size: Size) -> Boosted:
    """Fits trees to numbers, or to the codes of so many classes; as many as are best on the validation rows."""
    model = _model(classes, train.smallest_leaf, trees, validation is not None, seed, size)
    from threadpoolctl import threadpool_limits

    held_out = {} if validation is None else {
        "X_val": validation.x, "y_val": validation.y, "sample_weight_val": validation.weight
    }  # fmt: skip
    # Threads that wait for each other cost more than one, and on a busy machine they mostly wait.
    with threadpool_limits(None if len(train.y) > MANY else 1, user_api="openmp"):
        model.fit(train.x, train.y, train.weight, **held_out)
    count = len(model._predictors) if validation is None else int(np.argmax(model.validation_score_))
    rounds = [[_tree(tree.nodes) for tree in of_round] for of_round in model._predictors]
    return Boosted(np.reshape(model._baseline_prediction, -1), rounds, count)


def _model(classes: int, smallest: int, trees: int, stops: bool, seed: int, size: Size) -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    except ImportError:
        raise FewstepError(
            "Trees are fitted by scikit-learn or LightGBM: pip install 'fewstep[sklearn]' or pip install lightgbm."
        ) from None
    factory = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return factory(
        max_iter=trees, learning_rate=RATE, max_leaf_nodes=size.leaves, max_depth=size.depth,
        min_samples_leaf=smallest, l2_regularization=PENALTY, n_iter_no_change=PATIENCE, early_stopping=stops,
        random_state=seed,
    )  # fmt: skip


def _tree(nodes: np.ndarray) -> Tree:
    own, leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
    return Tree(
        nodes["feature_idx"],
        np.where(leaf, 0.0, nodes["num_threshold"]),
        np.where(leaf, nodes["value"], 0.0),
        np.stack([np.where(leaf, own, nodes[side]) for side in ("left", "right")], 1),
    )
