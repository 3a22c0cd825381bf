"""Figure 3 of the universality paper: tasks beyond those of the training, for learners by gradient and in context."""

import dataclasses
import math
from collections.abc import Sequence

from fewstep_studies.reproduce import omniglot
from fewstep_studies.reproduce._figure import Axes, Figure, Panel, Points, keys, lines, rows_of
from fewstep_studies.reproduce._images import BY_ROW, image_experiment
from fewstep_studies.reproduce._measurement import ImageTest, Measurement, Score, Training, make_row
from fewstep_studies.reproduce._rows import Changes, Row, with_verdicts
from fewstep_studies.reproduce._study import Cell, ImageOptions, Results, Study
from fewstep_studies.reproduce._training import TRAININGS, UNCLIPPED, curve_experiment

GRADIENT = {"MAML": "maml", "MT-net": "mtnet"}
READING = {"SNAIL": "snail", "MetaNet": "metanet", "LSTM": "recurrent"}
_SINE: Changes = {"frequency": (1.0, 1.0), "shots": 5, "queries": 10}
_OF_RULES: Changes = {
    "hidden": (100, 100), "bias_inputs": 10, "init": "he", "inner_steps": 5, "inner_lr": 0.001, **UNCLIPPED,
}  # fmt: skip
AMPLITUDES = tuple((low, low + 1.0) for low in (5.0, 6.0, 7.0, 8.0, 9.0))
PHASES = tuple((math.pi * (1 + n / 5), math.pi * (1 + (n + 1) / 5)) for n in range(5))
SHEARS = (0.0, 0.25, 0.5, 0.75, 1.0)
ZOOMS = (1.0, 0.85, 0.7, 0.55, 0.4)
_WAVES = tuple((f"amplitude {low:g}", {"amplitude": (low, high)}) for low, high in AMPLITUDES) + tuple(
    (f"phase {low / math.pi:.1f} pi", {"phase": (low, high)}) for low, high in PHASES
)
_CHARACTERS = tuple((f"shear {s:g}", {"shear": s}) for s in SHEARS) + tuple((f"zoom {z:g}", {"zoom": z}) for z in ZOOMS)
_PART = 2 / 7  # steps on images for each on sine waves
_WAVE_SEEDS = 3
_SIMILAR = {"accuracy": 0.05, "mse": 0.2}  # how far behind the best gradient learner counts as similar, in range


def cells(options: ImageOptions) -> list[Cell[Training]]:
    """Every learner on sine waves and on characters."""
    return [*_waves(options), *_characters(options)]


def _waves(options: ImageOptions) -> list[Cell[Training]]:
    seeds = options.seeds if options.quick else max(options.seeds, _WAVE_SEEDS)  # they take minutes
    grid = []
    for label, method in (GRADIENT | READING).items():
        rule = method in GRADIENT.values()
        own = _OF_RULES if rule else {"meta_batch": 25}
        experiment = curve_experiment(options, method, "sinusoid", **_SINE, **own, seeds=seeds)
        plan = Training(experiment, (5,) if rule else (0,), elsewhere=_WAVES)
        grid.append(Cell(f"sine-{method}", label, {"tasks": "sine waves"}, plan))
    return grid


def _characters(options: ImageOptions) -> list[Cell[Training]]:
    options = dataclasses.replace(options, steps=max(1, int(options.steps * _PART)), shots=(1,))
    known = {cell.name: cell.plan.experiment for cell in omniglot.cells(options)}
    grid = []
    for label, method in (GRADIENT | READING).items():
        experiment = known.get(f"{method}-5way-1shot") or image_experiment(
            options, method, "omniglot", ways=5, shots=1, queries=1, meta_batch=16, split="maml", outer_lr=0.001
        )
        steps = (3,) if experiment.has("inner_lr") else (0,)
        plan = Training(experiment, steps, elsewhere=_CHARACTERS, images=ImageTest(((5, 1, 1),), steps))
        grid.append(Cell(f"omniglot-{method}", label, {"tasks": "characters"}, plan))
    return grid


def rows(results: Results[ImageOptions, Training, Measurement]) -> list[Row]:
    """In range, and at the far end of each way out of it."""
    return with_verdicts([row for cell, measurement in results.pairs for row in _rows(cell, measurement)], _claim)


def _claim(row: Row, rows: list[Row]) -> bool | None:
    """In range all are to be similar; at the far end the best learner by gradient is to be ahead of the others."""
    sign = 1 if row.metric == "accuracy" else -1
    place = (row.setting["tasks"], row.setting["at"])
    here = [r for r in rows if (r.setting["tasks"], r.setting["at"]) == place and r.mean is not None]
    values = {r.method: sign * r.mean for r in here if r.mean is not None}
    ours = [value for method, value in values.items() if method in GRADIENT]
    others = [value for method, value in values.items() if method in ("SNAIL", "MetaNet")]
    if not ours or len(others) < 2 or row.mean is None:
        return None
    value, best = sign * row.mean, max(ours)
    if row.setting["at"] == "in range":
        return value >= best - _SIMILAR[row.metric] if row.method in READING else None
    return best > max(others) if row.method in GRADIENT and value == best else None


def _rows(cell: Cell[Training], measurement: Measurement) -> list[Row]:
    ends = {"in range": measurement.scores}
    for kind in dict.fromkeys(name.split()[0] for name, _ in cell.plan.elsewhere):
        name = [name for name, _ in cell.plan.elsewhere if name.startswith(kind)][-1]
        ends[name] = measurement.elsewhere.get(name, ())
    metric = "accuracy" if cell.plan.images else "mse"
    settings = {name: {**cell.setting, "shots": cell.plan.experiment.shots, "at": name} for name in ends}
    return [
        make_row(cell, measurement, _first(scores), metric=metric, setting=settings[name])
        for name, scores in ends.items()
    ]


def _first(scores: Sequence[Score]) -> Score | None:
    return next((score for score in scores if score.transductive), None)


def figures(results: Results[ImageOptions, Training, Measurement]) -> list[Figure]:
    """Score against how far out, a panel for each way: one figure for sine waves, one for characters."""
    data = []
    for cell, measurement in results.all:
        for name, scores in measurement.elsewhere.items():
            if (score := _first(scores)) is not None:
                kind, value = name.split()[:2]
                data.append((kind, cell.label, float(value), score.mean, score.interval95))
    waves = "Mean squared error for amplitudes and phases from the given value on, trained up to 5 and pi."
    characters = "Accuracy on sheared and on smaller characters."
    groups = {("amplitude", "phase"): ("", waves), ("shear", "zoom"): ("-characters", characters)}
    return [
        _figure(f"out-of-range{name}", caption, [row for row in data if row[0] in kinds])
        for kinds, (name, caption) in groups.items() if any(row[0] in kinds for row in data)
    ]  # fmt: skip


def _figure(name: str, caption: str, data: Points) -> Figure:
    return Figure(
        name, "Figure 3: beyond the training's tasks", f"{caption} The band is the 95% interval over tasks.",
        [_panel(kind, rows_of(data, kind)) for kind in keys(data)],
        ("how", "method", "value", "mean", "interval95"), data,
    )  # fmt: skip


def _panel(kind: str, data: Points) -> Panel:
    images, xlabel = kind in ("shear", "zoom"), kind + (" / pi" if kind == "phase" else "")
    draw = lines(kind, data, xlabel, "accuracy in %" if images else "error", factor=100 if images else 1)

    def panel(ax: Axes) -> None:
        draw(ax)
        if kind == "zoom":
            ax.invert_xaxis()

    return panel


STUDY = Study(
    "out-of-range", TRAININGS, cells, rows, figures, full=ImageOptions(seeds=1, steps=70_000),
    quick=ImageOptions(seeds=1, steps=350, n_tasks=50, quick=True), paper={"steps": 10_000, "n_tasks": 600},
    free=BY_ROW, places=("data_dir",),
)  # fmt: skip
