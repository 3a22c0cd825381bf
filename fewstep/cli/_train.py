"""`fewstep train`"""

import dataclasses
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import jax
import tyro

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._budget import seconds_of
from fewstep.cli._progress import show_progress
from fewstep.cli._together import together
from fewstep.experiments import Experiment
from fewstep.experiments.build import build
from fewstep.experiments.experiment import AUTO, NO_HINT
from fewstep.inspection import layer_lines
from fewstep.machine import distributed
from fewstep.machine.cluster import find_place
from fewstep.problems.tables import read_table
from fewstep.reports import scores, write_report
from fewstep.runs import Run, calibrate_run, create_run, load, train_run
from fewstep.runs.budget import planned
from fewstep.runs.train import Outcome


def check_target(args: Sequence[str]) -> None:
    """Raises `FewstepError` when `--y` names several columns: a parser would only call the second one unrecognized."""
    at = list(args).index("--y") + 1 if "--y" in args else len(args)
    named = list(itertools.takewhile(lambda word: not word.startswith("-"), args[at:]))
    if len(named) > 1 and any(word.startswith("table:") for word in args[:at]):  # else METHOD or TASKS may follow
        raise FewstepError(
            f"--y names {len(named)} columns ({', '.join(named)}), and one target is predicted at a time. Train a run "
            f"for each, the first with --y {named[0]}."
        )


@dataclasses.dataclass(frozen=True)
class Train:
    """Meta-train a method on tasks; the same command again goes on where it stopped.

    Examples of use:
      fewstep train mtnet sinusoid --steps 2000 --run runs/x
      fewstep train mtnet+rates sinusoid --seeds 5
      fewstep train mtnet omniglot --budget 30m
      fewstep train maml polynomial --order 3 --inner-steps 5 --outer first_order
      fewstep train mtnet omniglot --ways 5 --shots 1 --steps 15000
      fewstep train prototypes folder:photos.zip --ways 5 --shots 5 --image-size 32
      fewstep train mtnet table:growth.csv --task child --x age sex --y height_cm --shots 5
      fewstep train anil table:growth.csv --task child --x age --y height_cm --network mine.py:make
    """

    experiment: tyro.conf.OmitArgPrefixes[Experiment]
    run: Annotated[Path | None, NO_HINT] = None
    """Folder of the run (default: runs/METHOD-TASKS-SEED)."""
    budget: Annotated[str | None, NO_HINT] = None
    """Train for about so long, such as 10m or 2h: how many steps fit is measured before training starts (default: as
    many as --steps)."""
    overwrite: bool = False
    """Replace a run of another experiment in that folder."""
    save_every: float = 15.0
    """Seconds between checkpoints."""
    report: bool = True
    """Judge the run on 600 unseen tasks at the end, and write report.html."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder to look for images in before anything is downloaded (default: the environment variable FEWSTEP_DATA)."""
    tune: bool = True
    """Before a long training of heavy tasks, try which --devices and --chunk are fastest here, once for a network."""
    json: bool = False
    """Print the result as JSON on stdout."""
    coordinator: Annotated[str | None, NO_HINT] = None
    """Train as one of several processes, which meet at this HOST:PORT of process 0 (default: the environment variable
    FEWSTEP_COORDINATOR, or as SLURM, Open MPI or Kubernetes say; none: alone)."""
    processes: Annotated[int | None, NO_HINT] = None
    """How many processes there are (default: the environment variable FEWSTEP_PROCESSES)."""
    process: Annotated[int | None, NO_HINT] = None
    """Which of them this is, counted from 0 (default: the environment variable FEWSTEP_PROCESS)."""
    wait_seconds: float = 300.0
    """How long to wait for the other processes at the start."""

    def __call__(self) -> int:
        self.experiment.check()
        _show.watch_data(self.data_dir)
        place = find_place(self.coordinator, self.processes, self.process, os.environ)
        if place is None:
            return self._report(*self._train())
        run, outcome = together(place, self.wait_seconds, self._train)
        return self._report(run, outcome) if jax.process_index() == 0 else 130 * outcome.interrupted

    def _train(self) -> tuple[Run, Outcome]:
        path, experiment = self.run or self._usual_path(), self.experiment
        if self.budget is not None:
            experiment = self._plan(path, seconds_of(self.budget))
        run = create_run(path, experiment, overwrite=self.overwrite, tune=self.tune, say=_show.say)
        if not distributed.first():
            return run, train_run(run, save_seconds=self.save_every)
        self._tell(run)
        with show_progress(f"{self.experiment.method} on {self.experiment.tasks}") as progress:
            return run, train_run(run, progress, save_seconds=self.save_every)

    def _usual_path(self) -> Path:
        tasks = self.experiment.tasks.rstrip("/").rpartition("/")[2].removeprefix("folder:").removeprefix("table:")
        return Path("runs") / f"{self.experiment.method}-{tasks}-{self.experiment.seed}"

    def _plan(self, path: Path, seconds: float) -> Experiment:
        """The experiment with as many steps as fit into the time on this machine."""
        if self.experiment.steps != dataclasses.replace(self.experiment, steps=AUTO).steps:
            raise FewstepError("--budget and --steps are both given. Keep one.")
        if distributed.several():
            raise FewstepError("--budget does not apply to several processes. Give --steps instead.")
        _show.say(f"Measuring how many steps fit into {self.budget}.")
        experiment = planned(self.experiment, path, seconds, overwrite=self.overwrite)
        _show.say(f"Training {experiment.steps} steps.")
        return experiment

    def _tell(self, run: Run) -> None:
        """What a user should know before a long training: rows left out, and what a rule finds in their network."""
        if run.experiment.has_table and (note := read_table(run.experiment).note):
            _show.say(note)
        built = build(run.experiment) if run.experiment.network else None
        if built is not None and built.rule is not None:
            for line in layer_lines(built.network):
                _show.say(line)

    def _report(self, run: Run, outcome: Outcome) -> int:
        if outcome.interrupted:
            _show.say(f"Stopped at step {outcome.step}, saved in {run.path}. Run the same command to go on.")
            return 130
        result = {
            "run": str(run.path),
            "rule": self.experiment.method,
            "tasks": self.experiment.tasks,
            "step": outcome.step,
        }
        if run.experiment.has_table:
            trained = load(run.path)
            what = "probabilities" if trained.built.problem.metric == "accuracy" else "intervals"
            _show.say(f"Calibrating the {what} on the validation tasks.")
            calibrate_run(trained)
        if self.report:
            models = {self.experiment.method: load(run.path)}
            judged = scores(models, say=_show.say)
            _show.say("Drawing the report.")
            path = write_report(run.path / "report.html", models, judged)
            result |= {"rows": judged[self.experiment.method], "report": str(path)}
        if self.json:
            _show.as_json(result)
            return 0
        if self.report:
            _show.scores_table(judged)
        _show.say(
            f"Trained {outcome.step} steps; the run is in {run.path}" + (", see report.html." if self.report else ".")
        )
        return 0
