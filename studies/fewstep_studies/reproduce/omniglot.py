"""Table 3 of the MT-net paper, above: characters of Omniglot from one example each."""

from fewstep_studies.reproduce._image_figures import figures
from fewstep_studies.reproduce._images import BY_ROW, RULES, accuracy_rows, cost_rows, episode_pages, image_experiment
from fewstep_studies.reproduce._measurement import ImageTest, Measurement, Training
from fewstep_studies.reproduce._rows import Row
from fewstep_studies.reproduce._study import Cell, ImageOptions, Results, Study
from fewstep_studies.reproduce._training import TRAININGS, UNCLIPPED

# The published accuracy and its 95% interval, by ways and shots, each from the method's own paper.
PUBLISHED: dict[str, dict[tuple[int, int], tuple[float, float | None]]] = {
    "MT-net": {(5, 1): (0.995, 0.003), (20, 1): (0.962, 0.004)},
    "T-net": {(5, 1): (0.994, 0.003), (20, 1): (0.961, 0.003)},
    "MAML": {(5, 1): (0.987, 0.004), (20, 1): (0.958, 0.003), (5, 5): (0.999, 0.001), (20, 5): (0.989, 0.002)},
    "Meta-SGD": {
        (5, 1): (0.9953, 0.0026), (20, 1): (0.9593, 0.0038), (5, 5): (0.9993, 0.0009), (20, 5): (0.9897, 0.0019),
    },
    "prototypes": {(5, 1): (0.988, None), (20, 1): (0.960, None), (5, 5): (0.997, None), (20, 5): (0.989, None)},
    "matching": {(5, 1): (0.981, None), (20, 1): (0.938, None), (5, 5): (0.989, None), (20, 5): (0.987, None)},
}  # fmt: skip
STEPS = {5: (3,), 20: (5, 20)}  # inner steps at test: the paper's, and 20, which are best on the validation characters
INNER = (1, 3, 5, 10, 20)
META_BATCH = {5: 32, 20: 16}
INNER_LR = 2.0  # on the mean cross entropy: 0.4 and 0.1 in the papers, which sum over the classes
OUTER_LR = {5: 0.002, 20: 0.004}  # more than the papers' 0.001, because it falls to 0


def cells(options: ImageOptions) -> list[Cell[Training]]:
    """Each rule at 5 and 20 ways, matching likewise, and prototypes once for both; a quick run leaves 20 ways out.

    Each method has the split of its own paper. MT-net is there with the other one too, so that all can be compared.
    """
    grid, both = [], (5,) if options.quick else (5, 20)
    for shots in options.shots or (1,):
        for label, method in RULES.items():
            grid += [_rule(options, label, method, ways, shots, "maml") for ways in both]
        grid.append(_prototypes(options, shots))
        grid += [_matching(options, ways, shots) for ways in both]
        grid += [_rule(options, "MT-net", "mtnet", ways, shots, "vinyals") for ways in both]
    return grid


def _rule(options: ImageOptions, label: str, method: str, ways: int, shots: int, split: str) -> Cell[Training]:
    experiment = image_experiment(
        options, method, "omniglot", ways=ways, shots=shots, queries=1, meta_batch=META_BATCH[ways],
        inner_lr=INNER_LR, outer_lr=OUTER_LR[ways], split=split, **UNCLIPPED,
    )  # fmt: skip
    ours = split != "maml"
    test = ImageTest(((ways, shots, 1),), STEPS[ways])
    plan = Training(experiment, STEPS[ways] if options.quick else INNER, images=test)
    return Cell(f"{method}{f'-{split}' if ours else ''}-{ways}way-{shots}shot", label, {"split": split}, plan, ours)


def _prototypes(options: ImageOptions, shots: int) -> Cell[Training]:
    """As in their paper: 60 classes per task in training, 5 queries each, four classes made of each character."""
    experiment = image_experiment(
        options, "prototypes", "omniglot", ways=60, shots=shots, queries=5, meta_batch=2, rotate="classes",
        validation_ways=5, split="vinyals",
    )  # fmt: skip
    tests = tuple((ways, shots, 1) for ways in ((5,) if options.quick else (5, 20)))
    plan = Training(experiment, (0,), images=ImageTest(tests))
    return Cell(f"prototypes-{shots}shot", "prototypes", {"split": "vinyals"}, plan)


def _matching(options: ImageOptions, ways: int, shots: int) -> Cell[Training]:
    experiment = image_experiment(
        options, "matching", "omniglot", ways=ways, shots=shots, queries=5, meta_batch=8, split="vinyals"
    )
    plan = Training(experiment, (0,), images=ImageTest(((ways, shots, 1),)))
    return Cell(f"matching-{ways}way-{shots}shot", "matching", {"split": "vinyals"}, plan)


def rows(results: Results[ImageOptions, Training, Measurement]) -> list[Row]:
    """For each cell the accuracy at its tests, beside the paper's."""
    return [
        row
        for cell, measurement in results.pairs
        for row in accuracy_rows(cell, measurement, {} if cell.ours else PUBLISHED[cell.label])
    ]


STUDY = Study(
    "omniglot", TRAININGS, cells, rows, figures, cost=cost_rows, full=ImageOptions(seeds=1, steps=40_000),
    quick=ImageOptions(seeds=1, steps=100, n_tasks=50, quick=True), paper={"n_tasks": 600}, free=BY_ROW,
    places=("data_dir",), pages=episode_pages,
)  # fmt: skip
