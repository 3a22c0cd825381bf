"""`fewstep eval`"""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.experiments import Experiment
from fewstep.experiments.experiment import NO_HINT, Pair
from fewstep.runs import Model, baseline_rows, better_baseline, evaluate_run, evaluate_table, image_baselines, load


@dataclasses.dataclass(frozen=True)
class Eval:
    """Judge a run on unseen tasks: mean and 95 % interval for each number of shots and inner steps.

    Images are judged twice: normalized by the statistics of the query set (transductive, as in the papers) and by those
    of the support set, so that queries do not help each other.

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
    """Numbers of inner steps to judge after (default: 0 1 5; a learner without inner steps is judged once)."""
    n_tasks: Annotated[int | None, NO_HINT] = None
    """How many tasks (default: 600; of a table, all that were held out)."""
    queries: Annotated[int | None, NO_HINT] = None
    """Points a task is judged on, images a class (default: 10; images: as in training)."""
    ways: Annotated[int | None, NO_HINT] = None
    """Classes of a task (default: as in training)."""
    split: Literal["test", "validation", "train"] = "test"
    """The classes of images, or tasks of a table, that are judged. What you choose by looking, choose on validation."""
    baselines: bool = True
    """Judge simple methods beside the run: on a table's rows, models fitted to its training tasks; on the same tasks of
    images, nearest class means of pixels and of color histograms, which need no training."""
    amplitude: Annotated[Pair | None, NO_HINT] = None
    """Other sine waves than in training: range of the amplitude (default: as in training)."""
    frequency: Annotated[Pair | None, NO_HINT] = None
    """Range of the frequency (default: as in training)."""
    phase: Annotated[Pair | None, NO_HINT] = None
    """Range of the phase (default: as in training)."""
    shear: Annotated[float | None, NO_HINT] = None
    """Shear images: 1 moves the upper edge by half a height (default: as in training)."""
    zoom: Annotated[float | None, NO_HINT] = None
    """Scale what is in the images: below 1 it is smaller (default: as in training)."""
    seed: int = 0
    """Seed of the tasks and the masks."""
    checkpoint: Literal["last", "best"] = "last"
    """The last parameters, or those best on the validation tasks."""
    draw: Annotated[Literal["sample", "expected", "threshold"] | None, NO_HINT] = None
    """How masks come from their probabilities (default: as in training)."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder to look for images in before anything is downloaded (default: the environment variable FEWSTEP_DATA)."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def __call__(self) -> int:
        if self.n_tasks is not None and self.n_tasks < 2:
            raise FewstepError(f"--n-tasks is {self.n_tasks}. An interval needs at least 2 tasks.")
        _show.watch_data(self.data_dir)
        model = load(self.run, which=self.checkpoint, draw=self.draw)
        for note in model.notes:
            _show.say(note)
        experiment = model.run.experiment
        if self.inner_steps is not None and not model.built.steps:
            raise FewstepError(f"--inner-steps does not apply: {experiment.method} has none. Leave it out.")
        steps = (0, 1, 5) if self.inner_steps is None else tuple(sorted(set(self.inner_steps)))
        names = ("amplitude", "frequency", "phase", "shear", "zoom")
        changes = {name: value for name in names if (value := getattr(self, name)) is not None}
        if experiment.has_table:
            return self._table(model, changes)
        asked: dict[str, Any] = {
            "shots": self.shots or (experiment.shots,), "n_tasks": 600 if self.n_tasks is None else self.n_tasks,
            "queries": self.queries, "ways": self.ways, "split": self.split, "seed": self.seed, "changes": changes,
        }  # fmt: skip
        rows = evaluate_run(model, steps=steps, say=_show.say, **asked)
        others = image_baselines(model, say=_show.say, **asked) if self.baselines and experiment.has_images else {}
        code = self._show(experiment, {experiment.method: rows} | others)
        if others and (ahead := better_baseline(rows, others)):
            _tell_ahead(*ahead)
        return code

    def _show(self, experiment: Experiment, judged: dict[str, list[dict[str, Any]]]) -> int:
        if self.json:
            told = {"run": str(self.run), "rule": experiment.method, "tasks": experiment.tasks}
            others = {name: rows for name, rows in judged.items() if name != experiment.method}
            beside = experiment.has_table or experiment.has_images
            _show.as_json(told | {"rows": judged[experiment.method]} | ({"baselines": others} if beside else {}))
        else:
            _show.scores_table(judged)
        return 0

    def _table(self, model: Model, changes: dict[str, Any]) -> int:
        """The tasks of a table: each learned several times, beside the baselines."""
        idle = {**changes, "ways": self.ways, "queries": self.queries, "n-tasks": self.n_tasks}
        for name in (name for name, value in idle.items() if value is not None):
            raise FewstepError(f"--{name} does not apply: the run's tasks are a table's. Leave it out.")
        experiment = model.run.experiment
        shots = tuple(sorted(set(self.shots or (experiment.shots,))))
        steps = tuple(sorted(set(self.inner_steps or (0, 1, model.inner_steps))))
        rows = evaluate_table(model, shots=shots, steps=steps, split=self.split, seed=self.seed, say=_show.say)
        judged = {experiment.method: rows}
        if self.baselines and self.split == "test":
            judged |= baseline_rows(model, shots=shots, seed=self.seed, say=_show.say)
        return self._show(experiment, judged)


def _tell_ahead(name: str, row: dict[str, Any], best: float) -> None:
    _show.say(
        f"A baseline without training is ahead of this model: at {row['shots']} shots the {name} has "
        f"{row['mean']:.3f}, the model at best {best:.3f}. Train it longer (--steps), or on more classes."
    )
