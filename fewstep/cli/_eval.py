"""`fewstep eval`"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT, arguments, given_in
from fewstep.experiments import Experiment
from fewstep.files import JSON
from fewstep.models import (
    HeldOut,
    Model,
    Verdict,
    calibrate_rejection,
    evaluate_held_out,
    evaluate_model,
    load_pretrained,
    pooled_of,
    pretrained,
    verdicts_of,
)
from fewstep.problems import CHANGES, Plan, ScoreRow, Value
from fewstep.reports import usual_steps
from fewstep.runs import load, open_run


@dataclasses.dataclass(frozen=True)
class Eval:
    """Evaluate a run on unseen tasks: mean and 95% interval for each number of shots and inner steps.

    Images are evaluated twice: normalized by the statistics of the query set (transductive, as in the papers) and by
    those of the support set, so that queries do not help each other. `fewstep eval RUN --help` lists the options of the
    run's tasks too: with another value, a run is evaluated on other tasks than it was trained on.

    Examples of use:
      fewstep eval runs/x
      fewstep eval runs/x --shots 5 10 20 --inner-steps 1 5 --json
      fewstep eval runs/x --checkpoint best --draw threshold
      fewstep eval runs/characters --ways 5 --shots 1 5 --inner-steps 3
      fewstep eval runs/characters --split validation --inner-steps 1 3 5 10
      fewstep eval omniglot-mtnet-5way
      fewstep eval omniglot-mtnet-5way --shear 0.5
      fewstep eval runs/x --amplitude 5 10
      fewstep eval runs/growth --shots 3 5 10
      fewstep eval runs/growth --no-baselines
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or the name of a model that comes with the package."""
    shots: Annotated[tuple[int, ...] | None, NO_HINT] = None
    """Points a task is learned from (default: as in training)."""
    inner_steps: Annotated[tuple[int, ...] | None, NO_HINT] = None
    """Numbers of inner steps to evaluate after (default: 0 1 5; tables: 0 1 and as in training; a learner without inner
    steps is evaluated once)."""
    n_tasks: Annotated[int | None, NO_HINT] = None
    """How many tasks (default: 600; of a table, all that were held out)."""
    queries: Annotated[int | None, NO_HINT] = None
    """Points a task is evaluated on, images of each class (default: 10; images: as in training)."""
    ways: Annotated[int | None, NO_HINT] = None
    """Classes of a task (default: as in training)."""
    split: Literal["test", "validation", "train"] = "test"
    """The classes of images, or tasks of a table, to evaluate on. What you choose by looking, choose on validation."""
    baselines: bool = True
    """Evaluate simple methods beside the run: on a table's rows, models fitted to its training tasks; on the same tasks
    of images, nearest class means of pixels and of color histograms, which need no training."""
    seed: int = 0
    """Seed of the tasks and the masks."""
    checkpoint: Annotated[Literal["last", "best", "average"] | None, NO_HINT] = None
    """The last parameters, those best on the validation tasks, or the moving average (default: as the run's --keep
    says)."""
    draw: Annotated[Literal["sample", "expected", "threshold"] | None, NO_HINT] = None
    """How masks come from their probabilities (default: as in training)."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder to look for images in before anything is downloaded (default: the environment variable FEWSTEP_DATA)."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def __call__(self) -> int:
        return self.evaluate({})

    def evaluate(self, changes: dict[str, Value]) -> int:
        """Evaluates the run, on its own tasks or on changed ones."""
        _show.watch_data(self.data_dir)
        model = load(self.run, which=self.checkpoint, draw=self.draw)
        for note in model.notes:
            _show.say(note)
        if self.inner_steps is not None and not model.built.steps:
            raise FewstepError(f"--inner-steps does not apply: {model.experiment.method} has none. Leave it out.")
        steps = usual_steps(model) if self.inner_steps is None else tuple(sorted(set(self.inner_steps)))
        shots = tuple(sorted(set(self.shots or (model.experiment.shots,))))
        plan = Plan(shots, self.n_tasks, self.queries, self.ways, self.split, self.seed)
        verdicts: list[Verdict] = []
        if model.problem.held_out is None or changes:
            rows = evaluate_model(model, plan, steps=steps, say=_show.say, changes=changes)
            rows = self._with_auroc(model, plan, rows)
        else:
            found = evaluate_held_out(model, plan, steps=steps, say=_show.say)
            rows, verdicts = found.rows, self._verdicts(model, plan, found)
        baselines = self._baselines(model, plan, changes)
        self._show(model, rows, self._average(model, plan, steps, changes), baselines, verdicts)
        if model.problem.held_out is None and baselines and (ahead := better_baseline(rows, baselines)):
            _show.say(ahead)
        return 0

    def _with_auroc(self, model: Model, plan: Plan, rows: list[ScoreRow]) -> list[ScoreRow]:
        """The rows with how well queries of other classes are told apart, where these can be rejected."""
        if not model.problem.rejects:
            return rows
        found = calibrate_rejection(model, plan.shots, split=plan.split, ways=plan.ways, seed=plan.seed, say=_show.say)
        steps = {model.steps} if model.built.steps else {row.inner_steps for row in rows}
        return [
            dataclasses.replace(row, auroc=found.auroc.get(row.shots)) if found and row.inner_steps in steps else row
            for row in rows
        ]

    def _average(
        self, model: Model, plan: Plan, steps: tuple[int, ...], changes: dict[str, Value]
    ) -> dict[str, list[ScoreRow]]:
        """The scores of the moving average, if the run keeps one beside what is evaluated."""
        experiment = model.experiment
        if self.checkpoint or not experiment.has("ema") or not experiment.ema or experiment.keep == "average":
            return {}
        average = load(self.run, which="average", draw=self.draw)
        if average.problem.held_out is None or changes:
            return {"moving average": evaluate_model(average, plan, steps=steps, say=_show.say, changes=changes)}
        return {"moving average": evaluate_held_out(average, plan, steps=steps, say=_show.say).rows}

    def _verdicts(self, model: Model, plan: Plan, found: HeldOut) -> list[Verdict]:
        """Whether learning from so many rows pays, for each number of shots, if the kind has what to compare with."""
        pooled = pooled_of(model)
        if pooled is None or not self.baselines or plan.split == "train":
            return []
        _show.say("Comparing with a pooled model, which does not learn from a task.")
        return verdicts_of(model, found, pooled(plan))

    def _baselines(self, model: Model, plan: Plan, changes: dict[str, Value]) -> dict[str, list[ScoreRow]] | None:
        """The scores of simple methods; `None` where the kind has none."""
        if model.kind.baselines is None:
            return None
        if not self.baselines:
            return {}
        from fewstep.experiments import make_problem

        problem = make_problem(model.experiment.replace(**changes)) if changes else model.problem
        plan = plan if plan.queries or not model.problem.ways else plan._replace(queries=model.experiment.queries)
        return model.kind.baselines(problem, plan, _show.say)

    def _show(
        self, model: Model, rows: list[ScoreRow], average: dict[str, list[ScoreRow]],
        baselines: dict[str, list[ScoreRow]] | None, verdicts: list[Verdict],
    ) -> None:  # fmt: skip
        experiment = model.experiment
        if not self.json:
            _show.scores_table({experiment.method: rows, **average, **(baselines or {})})
            for verdict in verdicts:
                _show.print_line(verdict.sentence)
            return
        plain = lambda some: [row.to_json() for row in some]
        result = {"run": str(self.run), "rule": experiment.method, "tasks": experiment.tasks, "rows": plain(rows)}
        others: dict[str, JSON] = (
            {} if baselines is None else {"baselines": {name: plain(some) for name, some in baselines.items()}}
        )
        if model.choice is not None:
            others["choice"] = model.choice.to_json()
        if average:
            others["average"] = [row.to_json() for some in average.values() for row in some]
        if verdicts:  # the one on as many rows as in training, or the most; beside it all of them
            usual = [verdict for verdict in verdicts if verdict.shots == experiment.shots] or verdicts[-1:]
            others |= {"verdict": usual[0].to_json(), "verdicts": [verdict.to_json() for verdict in verdicts]}
        _show.print_json(result | others)


def eval_command(words: Sequence[str]) -> type:
    """The command for the words behind `fewstep eval`, with those options of the run's tasks that may change."""
    experiment = _experiment(words)
    names = [] if experiment is None else [
        field.name for field in dataclasses.fields(experiment.groups[0]) if field.metadata.get(CHANGES)
    ]  # fmt: skip
    if experiment is None or not names:
        return Eval
    group = arguments(type(experiment.groups[0]), experiment.settings())
    fields = [field for field in dataclasses.fields(group) if field.name in names]
    changes = dataclasses.make_dataclass("Changes", [(f.name, f.type, f) for f in fields], frozen=True)

    def call(self: Any) -> int:
        given = given_in(words, names)
        return self.evaluate({name: getattr(self.other_tasks, name) for name in names if name in given})

    field = ("other_tasks", changes, dataclasses.field(default_factory=changes))
    command = dataclasses.make_dataclass("Eval", [field], bases=(Eval,), frozen=True, namespace={"__call__": call})
    command.__doc__ = Eval.__doc__
    return command


def _experiment(words: Sequence[str]) -> Experiment | None:
    """The experiment of the run that the words name, if there is one."""
    for word in words:
        if not word.startswith("-"):
            if word in pretrained() and not Path(word).exists():
                return load_pretrained(word).experiment
            if (Path(word) / "config.json").is_file():
                return open_run(Path(word)).experiment
    return None


def better_baseline(rows: list[ScoreRow], baselines: dict[str, list[ScoreRow]]) -> str:
    """A remark on the baseline that is most ahead of the run's best row at the same number of shots; empty if the run
    is ahead of all."""
    best: dict[int, float] = {}
    for row in rows:
        mean = row.mean if math.isfinite(row.mean) else 0.0
        best[row.shots] = max(best.get(row.shots, 0.0), mean)
    ahead = [(row.mean - best[row.shots], name, row) for name, some in baselines.items() for row in some]
    lead, name, row = max(ahead, key=lambda entry: entry[0])
    if lead <= 0:
        return ""
    return (
        f"A baseline without training is ahead of this model: at {row.shots} shots the {name} has {row.mean:.3f}, the "
        f"model at best {best[row.shots]:.3f}. Train it longer (--steps), or on more classes."
    )
