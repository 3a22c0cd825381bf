"""Table 3 of the MT-net paper, above: characters of Omniglot from one example each."""

from fewstep.reproduce._curves_of_images import figures
from fewstep.reproduce._images import LEGEND, RULES, cost_rows, episode_pages, image_experiment
from fewstep.reproduce._rows import accuracy_rows
from fewstep.reproduce._study import Cell, Judged, Row, Scale, Study

# The published accuracy and its 95 % interval, by ways and shots, each from the method's own paper.
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
META_BATCH = {5: 16, 20: 8}
INNER_LR = 2.0  # on the mean cross entropy: 0.4 and 0.1 in the papers, which sum over the classes
OUTER_LR = {5: 0.002, 20: 0.004}  # more than the papers' 0.001, because it falls to 0


def cells(scale: Scale) -> list[Cell]:
    """Each rule at 5 and 20 ways, matching likewise, and prototypes once for both; a quick run leaves 20 ways out.

    Each method has the split of its own paper. MT-net is there with the other one too, so that all can be compared.
    """
    made, both = [], (5,) if scale.quick else (5, 20)
    for shots in scale.shots or (1,):
        for label, method in RULES.items():
            made += [_rule(scale, label, method, ways, shots, "maml") for ways in both]
        made.append(_prototypes(scale, shots))
        made += [_matching(scale, ways, shots) for ways in both]
        made += [_rule(scale, "MT-net", "mtnet", ways, shots, "vinyals") for ways in both]
    return made


def _rule(scale: Scale, label: str, method: str, ways: int, shots: int, split: str) -> Cell:
    experiment = image_experiment(
        scale, method, "omniglot", ways=ways, shots=shots, queries=1, meta_batch=META_BATCH[ways],
        inner_lr=INNER_LR, outer_lr=OUTER_LR[ways], split=split,
    )  # fmt: skip
    ours = split != "maml"
    return Cell(
        f"{method}{f'-{split}' if ours else ''}-{ways}way-{shots}shot",
        label,
        {"split": split},
        experiment,
        STEPS[ways] if scale.quick else INNER,
        ours=ours,
        tests=((ways, shots, 1),),
        steps_at_test=STEPS[ways],
    )


def _prototypes(scale: Scale, shots: int) -> Cell:
    """As in their paper: 60 classes a task in training, 5 queries each, four classes made of each character."""
    experiment = image_experiment(
        scale, "prototypes", "omniglot", ways=60, shots=shots, queries=5, meta_batch=2, rotate="classes",
        validation_ways=5, split="vinyals",
    )  # fmt: skip
    tests = tuple((ways, shots, 1) for ways in ((5,) if scale.quick else (5, 20)))
    return Cell(f"prototypes-{shots}shot", "prototypes", {"split": "vinyals"}, experiment, (0,), tests=tests)


def _matching(scale: Scale, ways: int, shots: int) -> Cell:
    experiment = image_experiment(
        scale, "matching", "omniglot", ways=ways, shots=shots, queries=5, meta_batch=8, split="vinyals"
    )
    return Cell(
        f"matching-{ways}way-{shots}shot", "matching", {"split": "vinyals"}, experiment, (0,), tests=((ways, shots, 1),)
    )


def rows(cells: list[Cell], judged: list[Judged]) -> list[Row]:
    """For each cell the accuracy at its tests, beside the paper's."""
    return [
        row
        for cell, found in zip(cells, judged, strict=True)
        for row in accuracy_rows(cell, found, {} if cell.ours else PUBLISHED[cell.label])
    ]


STUDY = Study(
    "omniglot",
    "Omniglot: Table 3 of the MT-net paper",
    "The paper's network and test: conv4 of 64 filters with stride 2, characters turned by multiples of 90 degrees, "
    "600 test tasks with one query a class, 3 inner steps at 5 ways and 5 at 20; there 20 steps too, which are best on "
    "the validation characters. Split maml, that of the MAML and MT-net code, draws the test characters from all "
    "alphabets; split vinyals keeps alphabets for the test, which is harder. Training is ours: Adam at 0.002 (20 ways: "
    "0.004) falling to 0 by a cosine, 16 tasks a step at 5 ways and 8 at 20, one inner step of 2 on the mean cross "
    "entropy. Prototypes train with 60 ways, and are trained and tested with four classes made of each character; "
    "matching networks train with the ways of the test. * is ours.",
    "Lee & Choi, ICML 2018, section 6.4; published values from there for T-net, MT-net and MAML, from Snell et al., "
    "2017 for prototypes, Vinyals et al., 2016 for matching, Li et al., 2017 for Meta-SGD.",
    LEGEND,
    cells,
    rows,
    figures,
    cost=cost_rows,
    scale=Scale(seeds=1, steps=40_000, paper_steps=0),
    quick=Scale(seeds=1, steps=100, n_tasks=50, quick=True, paper_steps=0),
    by_row=True,
    pages=episode_pages,
)
