"""Boosted trees by LightGBM, where it is installed.

Its first trees hold what it starts from, so a forest has a round of trees at least.
"""

from typing import Any

import numpy as np

from fewstep.learners._boosting import MANY, PATIENCE, PENALTY, RATE, Boosted, Sample, Size, Tree


def boost(train: Sample, validation: Sample | None, classes: int, trees: int, seed: int, size: Size) -> Boosted:
    """Fits trees to numbers, or to the codes of so many classes; as many as are best on the validation rows."""
    import lightgbm

    goal = "regression" if not classes else "binary" if classes == 2 else "multiclass"
    options = {
        "objective": goal, "learning_rate": RATE, "num_leaves": size.leaves, "max_depth": size.depth,
        "min_data_in_leaf": train.smallest_leaf, "lambda_l2": PENALTY, "seed": seed, "verbosity": -1,
        "deterministic": True, "force_row_wise": True, "num_threads": 0 if len(train.y) > MANY else 1,
    } | ({"num_class": classes} if classes > 2 else {})  # fmt: skip
    train = Sample(*map(np.ascontiguousarray, train))
    rows = lightgbm.Dataset(train.x, train.y, weight=train.weight, params={"verbosity": -1})
    held_out, stops = [], []
    if validation is not None:
        validation = Sample(*map(np.ascontiguousarray, validation))
        held_out = [lightgbm.Dataset(validation.x, validation.y, weight=validation.weight, reference=rows)]
        stops = [lightgbm.early_stopping(PATIENCE, verbose=False)]
    model = lightgbm.train(options, rows, trees, valid_sets=held_out, callbacks=stops)
    columns = classes if classes > 2 else 1
    every = [_tree(each["tree_structure"]) for each in model.dump_model(num_iteration=-1)["tree_info"]]
    rounds = [every[n : n + columns] for n in range(0, len(every), columns)]
    return Boosted(np.zeros(columns), rounds, model.best_iteration or len(rounds))


def _tree(root: dict[str, Any]) -> Tree:
    """The nodes one behind the other, the root first."""
    nodes, feature, threshold, value, children = [root], [], [], [], []
    for number, node in enumerate(nodes):  # grows while it is gone through
        leaf = "leaf_value" in node
        feature.append(0 if leaf else node["split_feature"])
        threshold.append(0.0 if leaf else node["threshold"])
        value.append(node["leaf_value"] if leaf else 0.0)
        children.append((number, number) if leaf else (len(nodes), len(nodes) + 1))
        nodes += [] if leaf else [node["left_child"], node["right_child"]]
    return Tree(*(np.asarray(part) for part in (feature, threshold, value, children)))
