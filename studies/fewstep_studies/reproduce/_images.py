"""What the studies of images share: how a cell is evaluated, its rows, costs and episodes."""

from collections.abc import Callable

from markupsafe import Markup

from fewstep.experiments import Experiment
from fewstep.files import JSON
from fewstep.models import Model, evaluate_model, evaluate_places
from fewstep.pages import heading, paragraph
from fewstep.problems import EXPLANATION, Plan, episodes_html, example_episodes
from fewstep.reports import answering
from fewstep_studies.reproduce._measurement import Measurement, Score, Training, image_test, make_row, scores_of
from fewstep_studies.reproduce._rows import Cost, Published, Row, Setting
from fewstep_studies.reproduce._study import Cell, O, Results, TrainingOptions

RULES = {"MT-net": "mtnet", "T-net": "tnet", "MAML": "maml", "Meta-SGD": "meta_sgd"}
BY_ROW = ("only", "budget", "shots", "steps")  # each row takes hours, and has its own
_STATISTICS = {"transductive": "of the query", "support": "of the support"}


def image_experiment(options: TrainingOptions, method: str, tasks: str, **settings: JSON) -> Experiment:
    """An experiment of this size on images; 40 validations draw its curve, in a quick run 4."""
    every = max(1, options.steps // (4 if options.quick else 40))
    small = {"validation_tasks": 10, "filters": 8, "blocks": 2, "image_size": 28} if options.quick else {}
    sizes: JSON = {"seed": options.seed, "seeds": options.seeds, "steps": options.steps}
    return Experiment(method, tasks, log_every=every, validate_every=every, **(sizes | settings | small))


def evaluate_images(
    cell: Cell[Training], measurement: Measurement, model: Model, n_tasks: int, say: Callable[[str], None]
) -> Measurement:
    """The accuracy of a cell at each of its tests, and some episodes with its answers. Elsewhere, and where the support
    is evaluated too, the statistics of the training alone are taken."""
    test, scores, first, steps = image_test(cell), [], model.problem.norms[:1], cell.plan.inner_steps
    for ways, shots, queries in test.tests:
        plan = Plan((shots,), n_tasks, queries, ways)
        scores += evaluate_model(model, plan, steps=steps, say=say, norms=first if test.on_support else None)
    ways, shots, queries = test.tests[0]
    plan = Plan((shots,), n_tasks, queries, ways)
    if cell.plan.elsewhere:
        say(f"{cell.name}: evaluating in {len(cell.plan.elsewhere)} more places.")
    places = (
        evaluate_places(model, dict(cell.plan.elsewhere), plan, steps=steps, norms=first) if cell.plan.elsewhere else {}
    )
    return measurement._replace(
        scores=scores_of(scores), elsewhere={place: scores_of(rows) for place, rows in places.items()},
        on_support=scores_of(evaluate_model(model, plan, steps=steps, norms=first, on="support"))
        if test.on_support else [],
        episodes=example_episodes(model.problem, answering(model), ways, shots, test.steps[0])
        if test.episodes and model.finite else [],
    )  # fmt: skip


def accuracy_rows(
    cell: Cell[Training], measurement: Measurement, published: dict[tuple[int, int], tuple[float, float | None]]
) -> list[Row]:
    """The rows of a cell: at each test transductive beside the paper's, and by the support's statistics."""
    rows, test = [], image_test(cell)
    for ways, shots, _ in test.tests:
        scores = [score for score in measurement.scores if (score.ways, score.shots) == (ways, shots)]
        by_norm = {(score.norm, score.inner_steps): score for score in scores}
        for norm in dict.fromkeys(score.norm for score in scores) or ["transductive"]:
            paper = published.get((ways, shots)) if norm == "transductive" else None
            for steps in test.steps if scores else test.steps[:1]:
                several = {"inner steps": steps} if len(test.steps) > 1 else {}
                setting = {"ways": ways, "shots": shots, **several, **cell.setting}
                rows.append(_accuracy(cell, measurement, by_norm.get((norm, steps)), setting, norm, paper))
    return rows


def _accuracy(
    cell: Cell[Training],
    measurement: Measurement,
    score: Score | None,
    setting: Setting,
    norm: str | None,
    published: Published,
) -> Row:
    return make_row(
        cell, measurement, score, metric="accuracy", published=published,
        setting={**setting, "statistics": _STATISTICS.get(norm or "", "of an image")},
        inner_steps=score and score.inner_steps, transductive=score.transductive if score else norm == "transductive",
    )  # fmt: skip


def cost_rows(results: Results[O, Training, Measurement]) -> list[Cost]:
    """The wall time of each row."""
    return [
        Cost(
            cell.label,
            cell.name,
            cell.plan.length,
            measurement.seconds / 60,
            steps_per_second=measurement.steps_per_second,
        )
        for cell, measurement in results.pairs
    ]


def episode_pages(results: Results[O, Training, Measurement]) -> dict[str, Markup]:
    """The page of example episodes: each query under the class it was given, right or wrong."""
    parts = [heading("Example episodes", 1), paragraph(EXPLANATION)]
    for cell, measurement in results.pairs:
        parts += [heading(f"{cell.label}, {cell.name}"), episodes_html(list(measurement.episodes))]
    return {"episodes": Markup().join(parts)}
