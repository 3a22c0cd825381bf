"""Photographs: CIFAR-FS, and miniImageNet, which is the lower part of Table 3 of the MT-net paper."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fewstep.reproduce._curves_of_images import figures
from fewstep.reproduce._images import LEGEND, RULES, cost_rows, episode_pages, image_experiment
from fewstep.reproduce._rows import accuracy_rows
from fewstep.reproduce._study import Cell, Judged, Row, Scale, Study

Published = dict[str, dict[tuple[int, int], tuple[float, float | None]]]
# CIFAR-FS: Bertinetto et al., 2019, conv4. miniImageNet: Table 3 of the MT-net paper, and for 5 shots the methods' own;
# matching networks without full-context embeddings, as they are trained here, by Ravi & Larochelle.
CIFAR_FS: Published = {
    "MAML": {(5, 1): (0.589, 0.019), (5, 5): (0.715, 0.010)},
    "prototypes": {(5, 1): (0.555, 0.007), (5, 5): (0.720, 0.006)},
}
MINI: Published = {
    "MT-net": {(5, 1): (0.5170, 0.0184)},
    "T-net": {(5, 1): (0.5086, 0.0182)},
    "MAML": {(5, 1): (0.4870, 0.0184), (5, 5): (0.6311, 0.0092)},
    "Meta-SGD": {(5, 1): (0.5047, 0.0187), (5, 5): (0.6403, 0.0094)},
    "prototypes": {(5, 1): (0.4942, 0.0078), (5, 5): (0.6820, 0.0066)},
    "matching": {(5, 1): (0.4340, 0.0078), (5, 5): (0.5109, 0.0071)},
    "neighbor": {(5, 1): (0.4108, 0.0070), (5, 5): (0.5104, 0.0065)},
    "fine-tuning": {(5, 1): (0.2886, 0.0054), (5, 5): (0.4979, 0.0079)},
}
LEARNERS = {"prototypes": "prototypes", "matching": "matching", "neighbor": "neighbor", "fine-tuning": "finetune"}
WAYS, QUERIES, STEPS = 5, 15, 10  # of every test
INNER = (5, 10, 20)


class _Recipe(NamedTuple):
    """How the rows of a study are trained. Prototypes train with more ways than they are tested with."""

    queries: int
    rules: dict[str, Any]
    tasks_of_learners: int
    ways_of_prototypes: dict[int, int]  # by their shots; 20 where nothing is said


CIFAR_RECIPE = _Recipe(queries=5, rules={"inner_steps": 1, "inner_lr": 0.4}, tasks_of_learners=4, ways_of_prototypes={})
MINI_RECIPE = _Recipe(  # the papers'
    queries=15, rules={"inner_steps": 5, "inner_lr": 0.05}, tasks_of_learners=1, ways_of_prototypes={1: 30}
)


def _cells(tasks: str, usual: tuple[int, ...], recipe: _Recipe) -> Callable[[Scale], list[Cell]]:
    def cells(scale: Scale) -> list[Cell]:
        made = []
        for shots in scale.shots or usual:
            made += [_rule(scale, tasks, label, method, shots, recipe) for label, method in RULES.items()]
            made += [_learner(scale, tasks, label, method, shots, recipe) for label, method in LEARNERS.items()]
        return made

    return cells


def _rule(scale: Scale, tasks: str, label: str, method: str, shots: int, recipe: _Recipe) -> Cell:
    """32 filters and 4 tasks a step, as in the papers."""
    experiment = image_experiment(
        scale, method, tasks, ways=WAYS, shots=shots, queries=recipe.queries, meta_batch=4, filters=32, **recipe.rules
    )
    return _cell(scale, method, label, shots, experiment, (STEPS,) if scale.quick else INNER)


def _learner(scale: Scale, tasks: str, label: str, method: str, shots: int, recipe: _Recipe) -> Cell:
    sizes: dict[str, Any] = {"ways": WAYS, "meta_batch": recipe.tasks_of_learners}
    if method == "prototypes" and not scale.quick:
        sizes = {"ways": recipe.ways_of_prototypes.get(shots, 20), "validation_ways": WAYS, "meta_batch": 1}
    experiment = image_experiment(scale, method, tasks, shots=shots, queries=recipe.queries, **sizes)
    steps = (STEPS,) if method == "finetune" and scale.quick else INNER if method == "finetune" else (0,)
    return _cell(scale, method, label, shots, experiment, steps)


def _cell(scale: Scale, method: str, label: str, shots: int, experiment: Any, steps: tuple[int, ...]) -> Cell:
    at_test = (STEPS,) if STEPS in steps else steps
    return Cell(
        f"{method}-{shots}shot", label, {}, experiment, steps, tests=((WAYS, shots, QUERIES),), steps_at_test=at_test
    )


def _rows(published: Published) -> Callable[[list[Cell], list[Judged]], list[Row]]:
    def rows(cells: list[Cell], judged: list[Judged]) -> list[Row]:
        return [
            row
            for cell, found in zip(cells, judged, strict=True)
            for row in accuracy_rows(cell, found, published.get(cell.label, {}))
        ]

    return rows


def _study(
    name: str, title: str, protocol: str, reading: str, cells: Any, published: Published, needs: str = ""
) -> Study:
    return Study(
        name, title, protocol, reading, LEGEND, cells, _rows(published), figures, cost=cost_rows,
        scale=Scale(seeds=1, steps=40_000, paper_steps=0),
        quick=Scale(seeds=1, steps=40, n_tasks=20, quick=True, paper_steps=0),
        by_row=True, needs=needs, pages=episode_pages,
    )  # fmt: skip


_COMMON = (
    "conv4 with 2x2 pooling, 32 filters for the rules and 64 for the rest; 600 test tasks of 5 ways with 15 queries a "
    "class, 10 inner steps at test. Training is ours: Adam at 0.002 falling to 0 by a cosine, 4 tasks a step for the "
    "rules"
)
CIFAR_STUDY = _study(
    "cifar-fs",
    "CIFAR-FS",
    f"{_COMMON}, 5 queries a class, one inner step of 0.4 on the mean cross entropy; prototypes one task a step, of 20 "
    "ways.",
    "Published: MAML and prototypes with conv4 as given by Bertinetto et al., ICLR 2019. There is none for MT-net.",
    _cells("cifar-fs", (1, 5), CIFAR_RECIPE),
    CIFAR_FS,
)
MINI_STUDY = _study(
    "miniimagenet",
    "miniImageNet: Table 3 of the MT-net paper",
    f"{_COMMON}, 15 queries a class, 5 inner steps of 0.05 on the mean cross entropy (0.01 in the paper, which sums "
    "over the classes); prototypes one task a step, of 30 ways (20 with 5 shots).",
    "Lee & Choi, ICML 2018, section 6.4. The images cannot be downloaded freely: name their folder with --images.",
    _cells("miniimagenet", (1,), MINI_RECIPE),
    MINI,
    needs="--images FOLDER",
)
