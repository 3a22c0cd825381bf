"""What the studies of images share: how a row is judged, told and drawn."""

from typing import Any

from fewstep.inspection import inspect
from fewstep.reproduce._study import Cell, Judged, Row, Scale
from fewstep.runs import Experiment, Model, evaluate_run
from fewstep.runs.episodes import EXPLANATION, episodes_html, example_episodes

LEGEND = (
    "± is the 95 % interval over the test tasks. A row meets the paper unless it is lower by more than the 95 % "
    "interval of the difference. Statistics of the query: transductive, as in the papers; of the support: no query "
    "sees another."
)

# What stands for a score where every seed of a training diverged.
_LOST: Row = {
    "norm": "transductive", "transductive": True, "mean": None, "interval95": None, "n_tasks": None,
    "inner_steps": None,
}  # fmt: skip


def image_experiment(scale: Scale, method: str, tasks: str, **options: Any) -> Experiment:
    """An experiment of this scale on images; 40 validations draw its curve, in a quick run 4."""
    every = max(1, scale.steps // (4 if scale.quick else 40))
    small: dict[str, Any] = {"validation_tasks": 10, "filters": 8, "blocks": 2, "image_size": 28} if scale.quick else {}
    sizes = {"seed": scale.seed, "seeds": scale.seeds, "steps": scale.steps}
    return Experiment(method, tasks, log_every=every, validate_every=every, **(sizes | options | small))


def judge_images(cell: Cell, model: Model, n_tasks: int) -> Judged:
    """The accuracy of a cell at each of its tests, what its masks have learned, and some episodes with its answers."""
    errors = []
    for ways, shots, queries in cell.tests:
        errors += evaluate_run(
            model, shots=(shots,), steps=cell.steps, n_tasks=n_tasks, ways=ways, queries=queries,
        )  # fmt: skip
    ways, shots, _ = cell.tests[0]
    inside = {} if model.built.rule is None or not model.whole else _inside(model)
    return {
        "diverged_seeds": cell.experiment.seeds - len(model.whole),
        "errors": errors,
        "inside": inside,
        "episodes": example_episodes(model, ways, shots, cell.steps_at_test) if model.whole else [],
    }


def accuracy_rows(
    cell: Cell, judged: Judged, published: dict[tuple[int, int], tuple[float, float | None]]
) -> list[Row]:
    """The rows of a cell: at each test transductive beside the paper's, and by the statistics of the support."""
    rows = []
    for ways, shots, _ in cell.tests:
        mine = [row for row in judged["errors"] if (row["ways"], row["shots"]) == (ways, shots)]
        mine = mine or [_LOST | {"ways": ways, "shots": shots}]
        for norm in dict.fromkeys(row["norm"] for row in mine):
            several = [row for row in mine if row["norm"] == norm]
            found = next((row for row in several if row["inner_steps"] == cell.steps_at_test), several[0])
            paper = published.get((ways, shots)) if norm == "transductive" else None
            rows.append(_row(cell, judged, found, paper))
    return rows


def _row(cell: Cell, judged: Judged, found: Row, paper: tuple[float, float | None] | None) -> Row:
    whose = {"transductive": "of the query", "support": "of the support"}.get(found["norm"], "of an image")
    return {
        "method": cell.label,
        "setting": {"ways": found["ways"], "shots": found["shots"], **cell.setting, "statistics": whose},
        "metric": "accuracy",
        "mean": found["mean"],
        "interval95": found["interval95"],
        "median": found.get("median"),
        "seed_std": found.get("seed_std"),
        "seeds": cell.experiment.seeds,
        "diverged_seeds": judged["diverged_seeds"],
        "diverged_tasks": found.get("diverged_tasks", 0),
        "n_tasks": found["n_tasks"],
        "inner_steps": found["inner_steps"],
        "transductive": found["transductive"],
        "published": paper[0] if paper else None,
        "published_interval95": paper[1] if paper else None,
        "verdict": "diverged" if found["n_tasks"] is None else _verdict(found, paper),
        "ours": cell.ours,
        "steps": cell.experiment.steps,
        "seconds": judged["seconds"],
    }


def _verdict(found: Row, paper: tuple[float, float | None] | None) -> str:
    """`meets` unless ours is lower by more than the 95 % interval of the difference."""
    if paper is None or found["mean"] is None:
        return "" if paper is None else "misses"
    apart = (found["interval95"] ** 2 + (paper[1] or 0.0) ** 2) ** 0.5
    return "meets" if found["mean"] >= paper[0] - apart else "misses"


def cost_rows(cells: list[Cell], judged: list[Judged], speed: Judged) -> list[Row]:
    """The wall time of each row."""
    return [
        {
            "method": cell.label, "setting": cell.name, "steps": cell.experiment.steps,
            "training_minutes": found["seconds"] / 60, "steps_per_second": found["steps_per_second"],
        }
        for cell, found in zip(cells, judged, strict=True)
    ]  # fmt: skip


def _inside(model: Model) -> dict[str, float]:
    report = inspect(model.built.network.layers, next(iter(model.whole.values())))
    return {layer.path: layer.updated for layer in report.layers}


def episode_pages(cells: list[Cell], judged: list[Judged]) -> dict[str, str]:
    """The page of example episodes: each query under the class it was given, right or wrong."""
    parts = [f"<h1>Example episodes</h1><p>{EXPLANATION}</p>"]
    for cell, found in zip(cells, judged, strict=True):
        parts += [f"<h2>{cell.label}, {cell.name}</h2>", episodes_html(found["episodes"])]
    return {"episodes": "".join(parts)}
