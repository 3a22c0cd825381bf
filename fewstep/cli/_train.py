"""`fewstep train`"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from fewstep.cli import _show
from fewstep.cli._progress import show_progress
from fewstep.runs import Experiment, create_run, load, scores, train_run, write_report
from fewstep.runs.experiment import NO_HINT


@dataclasses.dataclass(frozen=True)
class Train:
    """Meta-train a method on tasks; the same command again goes on where it stopped.

    Examples of use:
      fewstep train mtnet sinusoid --steps 2000 --run runs/x
      fewstep train mtnet+rates sinusoid --seeds 5
      fewstep train maml polynomial --order 3 --inner-steps 5 --outer first_order
      fewstep train mtnet omniglot --ways 5 --shots 1 --steps 15000
      fewstep train prototypes folder:photos.zip --ways 5 --shots 5 --image-size 32
    """

    experiment: tyro.conf.OmitArgPrefixes[Experiment]
    run: Annotated[Path | None, NO_HINT] = None
    """Folder of the run (default: runs/METHOD-TASKS-SEED)."""
    overwrite: bool = False
    """Replace a run of another experiment in that folder."""
    save_every: float = 15.0
    """Seconds between checkpoints."""
    report: bool = True
    """Judge the run on 600 unseen tasks at the end, and write report.html."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder to look for images in before anything is downloaded (default: the environment variable FEWSTEP_DATA)."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def __call__(self) -> int:
        _show.watch_data(self.data_dir)
        tasks = self.experiment.tasks.rstrip("/").rpartition("/")[2].removeprefix("folder:")
        name = f"{self.experiment.method}-{tasks}-{self.experiment.seed}"
        run = create_run(self.run or Path("runs") / name, self.experiment, overwrite=self.overwrite)
        with show_progress(f"{self.experiment.method} on {self.experiment.tasks}") as progress:
            outcome = train_run(run, progress, save_seconds=self.save_every)
        if outcome.interrupted:
            _show.say(f"Stopped at step {outcome.step}, saved in {run.path}. Run the same command to go on.")
            return 130
        result = {
            "run": str(run.path),
            "rule": self.experiment.method,
            "tasks": self.experiment.tasks,
            "step": outcome.step,
        }
        if self.report:
            models = {self.experiment.method: load(run.path)}
            judged = scores(models)
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
