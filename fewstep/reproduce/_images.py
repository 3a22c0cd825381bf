"""What the studies of images share: how a row is judged, told and drawn."""

from collections.abc import Callable
from typing import Any

from fewstep.experiments import Experiment
from fewstep.reports.episodes import EXPLANATION, episodes_html, example_episodes
from fewstep.reproduce._study import Cell, Judged, Row, Scale
from fewstep.runs import Model, evaluate_places, evaluate_run

LEGEND = (
    "± is the 95 % interval over the test tasks. A row meets the paper unless it is lower by more than the 95 % "
    "interval of the difference. Statistics of the query: transductive, as in the papers; of the support: no query "
    "sees another."
)
RULES = {"MT-net": "mtnet", "T-net": "tnet", "MAML": "maml", "Meta-SGD": "meta_sgd"}


def image_experiment(scale: Scale, method: str, tasks: str, **options: Any) -> Experiment:
    """An experiment of this scale on images; 40 validations draw its curve, in a quick run 4."""
    every = max(1, scale.steps // (4 if scale.quick else 40))
    small: dict[str, Any] = {"validation_tasks": 10, "filters": 8, "blocks": 2, "image_size": 28} if scale.quick else {}
    sizes = {"seed": scale.seed, "seeds": scale.seeds, "steps": scale.steps}
    return Experiment(method, tasks, log_every=every, validate_every=every, **(sizes | options | small))


def judge_images(cell: Cell, model: Model, n_tasks: int, say: Callable[[str], None]) -> Judged:
    """The accuracy of a cell at each of its tests, and some episodes with its answers. Elsewhere, and where the support
    is judged too, the statistics of the training alone are taken."""
    errors, first = [], model.built.problem.norms[:1]
    for ways, shots, queries in cell.tests:
        errors += evaluate_run(
            model, shots=(shots,), steps=cell.steps, n_tasks=n_tasks, ways=ways, queries=queries, say=say,
            norms=first if cell.seen_too else None,
        )  # fmt: skip
    ways, shots, queries = cell.tests[0]
    size: dict[str, Any] = {
        "shots": (shots,),
        "steps": cell.steps,
        "n_tasks": n_tasks,
        "ways": ways,
        "queries": queries,
        "norms": first,
    }
    if cell.elsewhere:
        say(f"{cell.name}: judging in {len(cell.elsewhere)} more places.")
    return {
        "diverged_seeds": cell.experiment.seeds - len(model.whole),
        "errors": errors,
        "elsewhere": evaluate_places(model, dict(cell.elsewhere), **size) if cell.elsewhere else {},
        "seen": evaluate_run(model, **size, on="support") if cell.seen_too else [],
        "episodes": example_episodes(model, ways, shots, cell.steps_at_test[0]) if model.whole else [],
    }


def cost_rows(cells: list[Cell], judged: list[Judged], speed: Judged) -> list[Row]:
    """The wall time of each row."""
    return [
        {
            "method": cell.label, "setting": cell.name, "steps": cell.experiment.steps,
            "training_minutes": found["seconds"] / 60, "steps_per_second": found["steps_per_second"],
        }
        for cell, found in zip(cells, judged, strict=True)
    ]  # fmt: skip


def episode_pages(cells: list[Cell], judged: list[Judged]) -> dict[str, str]:
    """The page of example episodes: each query under the class it was given, right or wrong."""
    parts = [f"<h1>Example episodes</h1><p>{EXPLANATION}</p>"]
    for cell, found in zip(cells, judged, strict=True):
        parts += [f"<h2>{cell.label}, {cell.name}</h2>", episodes_html(found["episodes"])]
    return {"episodes": "".join(parts)}
