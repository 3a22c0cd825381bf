"""`fewstep export`"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT
from fewstep.export import Format, export_model
from fewstep.models import STUDENT, Distilled, Model, distill
from fewstep.reports import scores
from fewstep.runs import load


@dataclasses.dataclass(frozen=True)
class Export:
    """Write a trained model so that it can be used without fewstep, with a card that says what it is.

    Examples of use:
      fewstep export runs/growth
      fewstep export runs/growth --format safetensors --out growth-model
      fewstep export omniglot-mtnet-5way --no-score
      fewstep export runs/growth --distill
      fewstep export runs/growth --distill mtnet+rates --steps 2000 --json
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or the name of a model that comes with the package."""
    format: Format = "stablehlo"
    """Compiled functions that adapt and predict, with a loader; or the parameters alone."""
    out: Annotated[Path | None, NO_HINT] = None
    """Folder to write to (default: RUN-export; RUN-distilled with --distill)."""
    distill: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="[METHOD]", help_behavior_hint="")] = None
    """Train one small model of METHOD (default: ridge) on the answers of a run on a table, and write that instead. What
    it loses against the run on the test tasks is reported."""
    steps: Annotated[int | None, NO_HINT] = None
    """Outer steps of that model (default: as METHOD has them on tables)."""
    seed: Annotated[int | None, NO_HINT] = None
    """Seed of that model, and of the episodes that the run answers on (default: 0)."""
    support: int = 64
    """The largest number of rows that the compiled function can learn from."""
    score: bool = True
    """Evaluate the model on unseen tasks for its card."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder to look for images in before anything is downloaded (default: the environment variable FEWSTEP_DATA)."""
    json: bool = False
    """Print the names of the files as JSON on stdout."""

    def __call__(self) -> int:
        _show.watch_data(self.data_dir)
        if self.support < 1:
            raise FewstepError(f"--support is {self.support}. It must be at least 1.")
        self._check()
        model, report = load(self.run), None
        for note in model.notes:
            _show.say(note)
        if self.distill is not None:
            model, report = self._distilled(model)
        out = self.out or Path(f"{str(self.run).rstrip('/')}-{'export' if report is None else 'distilled'}")
        rows = scores({"": model}, n_tasks=200)[""] if self.score else []
        paths = export_model(model, out, self.format, rows, support=self.support, distilled=report)
        if self.json:
            more = {} if report is None else {"distilled": report.to_json()}
            names = [path.name for path in paths]
            _show.print_json({"run": str(self.run), "folder": str(out), "files": names, **more})
        else:
            _show.say(f"Wrote {', '.join(path.name for path in paths)} to {out}.")
        return 0

    def _check(self) -> None:
        if self.distill is None:
            for name in ("steps", "seed"):
                if getattr(self, name) is not None:
                    raise FewstepError(f"--{name} is that of a model that is distilled. Give --distill too.")
        elif len(self.distill) > 1:
            raise FewstepError(f"--distill is {' '.join(self.distill)}. Give one method, or none for {STUDENT}.")

    def _distilled(self, model: Model) -> tuple[Model, Distilled]:
        """The student of a run, with what it loses."""
        method = self.distill[0] if self.distill else STUDENT
        student, report = distill(
            model, method, steps=self.steps, seed=self.seed or 0, say=_show.say, watch=_show.follow()
        )
        _show.say(f"It took {report.bank_seconds:.0f} s to answer and {report.train_seconds:.0f} s to train.")
        _show.say(report.sentence)
        return student, report
