"""Photographs: CIFAR-FS, and miniImageNet, which is the lower part of Table 3 of the MT-net paper."""

from collections.abc import Callable
from typing import NamedTuple

from fewstep.experiments import Experiment
from fewstep_studies.reproduce._image_figures import figures
from fewstep_studies.reproduce._images import BY_ROW, RULES, accuracy_rows, cost_rows, episode_pages, image_experiment
from fewstep_studies.reproduce._measurement import ImageTest, Measurement, Training
from fewstep_studies.reproduce._rows import Changes, Row
from fewstep_studies.reproduce._study import Cell, ImageOptions, Results, Study
from fewstep_studies.reproduce._training import TRAININGS, UNCLIPPED

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
    rules: Changes
    tasks_of_learners: int
    ways_of_prototypes: dict[int, int]  # by their shots; 20 where nothing is said


CIFAR_RECIPE = _Recipe(queries=5, rules={"inner_steps": 1, "inner_lr": 0.4}, tasks_of_learners=4, ways_of_prototypes={})
MINI_RECIPE = _Recipe(  # the papers'
    queries=15, rules={"inner_steps": 5, "inner_lr": 0.05}, tasks_of_learners=1, ways_of_prototypes={1: 30}
)


def _cells(tasks: str, usual: tuple[int, ...], recipe: _Recipe) -> Callable[[ImageOptions], list[Cell[Training]]]:
    def cells(options: ImageOptions) -> list[Cell[Training]]:
        grid = []
        for shots in options.shots or usual:
            grid += [_rule(options, tasks, label, method, shots, recipe) for label, method in RULES.items()]
            grid += [_learner(options, tasks, label, method, shots, recipe) for label, method in LEARNERS.items()]
        return grid

    return cells


def _rule(options: ImageOptions, tasks: str, label: str, method: str, shots: int, recipe: _Recipe) -> Cell[Training]:
    """32 filters and 4 tasks per step, as in the papers."""
    experiment = image_experiment(
        options, method, tasks, ways=WAYS, shots=shots, queries=recipe.queries, meta_batch=4, filters=32,
        **UNCLIPPED, **recipe.rules,
    )  # fmt: skip
    return _cell(method, label, shots, experiment, (STEPS,) if options.quick else INNER)


def _learner(options: ImageOptions, tasks: str, label: str, method: str, shots: int, recipe: _Recipe) -> Cell[Training]:
    sizes: Changes = {"ways": WAYS, "meta_batch": recipe.tasks_of_learners}
    if method == "prototypes" and not options.quick:
        sizes = {"ways": recipe.ways_of_prototypes.get(shots, 20), "validation_ways": WAYS, "meta_batch": 1}
    experiment = image_experiment(options, method, tasks, shots=shots, queries=recipe.queries, **sizes)
    steps = (STEPS,) if method == "finetune" and options.quick else INNER if method == "finetune" else (0,)
    return _cell(method, label, shots, experiment, steps)


def _cell(method: str, label: str, shots: int, experiment: Experiment, steps: tuple[int, ...]) -> Cell[Training]:
    test = ImageTest(((WAYS, shots, QUERIES),), (STEPS,) if STEPS in steps else steps)
    return Cell(f"{method}-{shots}shot", label, {}, Training(experiment, steps, images=test))


def _rows(published: Published) -> Callable[[Results[ImageOptions, Training, Measurement]], list[Row]]:
    def rows(results: Results[ImageOptions, Training, Measurement]) -> list[Row]:
        return [
            row
            for cell, measurement in results.pairs
            for row in accuracy_rows(cell, measurement, published.get(cell.label, {}))
        ]

    return rows


def _study(
    name: str, shots: tuple[int, ...], recipe: _Recipe, published: Published, places: tuple[str, ...] = ("data_dir",)
) -> Study[ImageOptions, Training, Measurement]:
    return Study(
        name, TRAININGS, _cells(name, shots, recipe), _rows(published), figures, cost=cost_rows,
        full=ImageOptions(seeds=1, steps=40_000), quick=ImageOptions(seeds=1, steps=40, n_tasks=20, quick=True),
        paper={"n_tasks": 600}, free=BY_ROW, places=places, pages=episode_pages,
    )  # fmt: skip


CIFAR_STUDY = _study("cifar-fs", (1, 5), CIFAR_RECIPE, CIFAR_FS)
MINI_STUDY = _study("miniimagenet", (1,), MINI_RECIPE, MINI, ("data_dir", "images"))
