"""`fewstep export`"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT
from fewstep.export import Format, export_model
from fewstep.reports import scores
from fewstep.runs import load


@dataclasses.dataclass(frozen=True)
class Export:
    """Write a trained model so that it can be used without fewstep, with a card that says what it is.

    Examples of use:
      fewstep export runs/growth
      fewstep export runs/growth --format safetensors --out growth-model
      fewstep export omniglot-mtnet-5way --no-score
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or the name of a model that comes with the package."""
    format: Format = "stablehlo"
    """Compiled functions that adapt and predict, with a loader; or the parameters alone."""
    out: Annotated[Path | None, NO_HINT] = None
    """Folder to write to (default: RUN-export)."""
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
        model = load(self.run)
        for note in model.notes:
            _show.say(note)
        out = self.out or Path(f"{str(self.run).rstrip('/')}-export")
        rows = scores({"": model}, n_tasks=200)[""] if self.score else []
        paths = export_model(model, out, self.format, rows, support=self.support)
        if self.json:
            _show.print_json({"run": str(self.run), "folder": str(out), "files": [path.name for path in paths]})
        else:
            _show.say(f"Wrote {', '.join(path.name for path in paths)} to {out}.")
        return 0
