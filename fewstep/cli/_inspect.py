"""`fewstep inspect`"""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from fewstep._errors import FewstepError
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT
from fewstep.files import JSON
from fewstep.inspection import LayerReport, Report, inspect
from fewstep.reports import write_inspection
from fewstep.runs import load


@dataclasses.dataclass(frozen=True)
class Inspect:
    """Look inside a run: what each layer's mask lets move, and the metric T makes there. The spectra are drawn in
    inspect.html, in the run's folder.

    Examples of use:
      fewstep inspect runs/x
      fewstep inspect runs/x --json
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or the name of a model that comes with the package."""
    seed: Annotated[int | None, NO_HINT] = None
    """Which of the run's seeds (default: its first)."""
    checkpoint: Annotated[Literal["last", "best", "average"] | None, NO_HINT] = None
    """The last parameters, those best on the validation tasks, or the moving average (default: as the run's --keep
    says)."""
    json: bool = False
    """Print everything, the matrices too, as JSON on stdout."""

    def __call__(self) -> int:
        model = load(self.run, which=self.checkpoint)
        for note in model.notes:
            _show.say(note)
        if model.built.rule is None:
            raise FewstepError(f"{model.experiment.method} takes no inner steps: there is no mask and no metric.")
        report = inspect(model.built.network.layers, model.meta(self.seed))
        if self.json:
            _show.print_json({"run": str(self.run), "rule": model.experiment.method, **_plain(report)})
            return 0
        head = ["layer", "width", "updated", "rank of T diag(m) T'", "T's singular values", "condition"]
        _show.print_table(head, [_cells(layer) for layer in report.layers])
        _show.print_table(
            ["expected updated fraction", "by logit", "by layer", "by parameter"],
            [["", *(f"{value:.4f}" for value in report[1:])]],
        )
        for layer in model.built.network.layers:
            if layer.skip:
                _show.say(f"{layer.path} has no T and no mask: {layer.skip}.")
        if self.run.is_dir():
            page = write_inspection(self.run / "inspect.html", model.experiment.public_method, report)
            _show.say(f"The spectra of masks and metrics are in {page}.")
        return 0


def _cells(layer: LayerReport) -> list[object]:
    values = layer.singular_values
    span = "-" if values is None else f"{values[0]:.3g} ... {values[-1]:.3g}"
    condition = "-" if layer.condition is None else f"{layer.condition:.3g}"
    return [layer.path, layer.width, f"{layer.updated:.4f}", f"{layer.rank} of {layer.width}", span, condition]


def _plain(report: Report) -> dict[str, JSON]:
    lists = lambda row: {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in row._asdict().items()}
    return {**report._asdict(), "layers": [lists(layer) for layer in report.layers]}
