"""`fewstep reproduce`"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from fewstep._errors import FewstepError, unknown
from fewstep.cli import _show
from fewstep.cli._progress import show_grid
from fewstep.reproduce import HEAD, QUICK, STUDIES, Scale, Watch, cost_table, reproduce, table_rows
from fewstep.runs.experiment import NO_HINT

_NAMES = f"What to reproduce: {', '.join(STUDIES)}."


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Train the grid behind a published table or figure, and show ours beside the paper's.

    Examples of use:
      fewstep reproduce sinusoid --quick
      fewstep reproduce step-size --seeds 3 --json
      fewstep reproduce polynomial --resume
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help=_NAMES)]
    """What to reproduce."""
    seeds: Annotated[int | None, NO_HINT] = None
    """Seeds, trained together (default: 5)."""
    seed: int = 0
    """The first of the seeds."""
    steps: Annotated[int | None, NO_HINT] = None
    """Outer steps of each training (default: 60000, as in the paper)."""
    n_tasks: Annotated[int | None, NO_HINT] = None
    """Test tasks (default: 600, as in the paper)."""
    quick: bool = False
    """A look in about a minute: one seed, few steps, marked as such in every output."""
    only: tuple[str, ...] = ()
    """Cells of the grid to take, by the names of their folders, such as maml mtnet (default: all)."""
    out: Annotated[Path | None, NO_HINT] = None
    """Folder of the trainings, the report and its figures (default: runs/reproduce-NAME)."""
    resume: bool = False
    """Go on with a grid that was stopped; finished cells are not trained again."""
    overwrite: bool = False
    """Replace the reproduction in that folder."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def __call__(self) -> int:
        if self.name not in STUDIES:
            raise unknown("reproduction", self.name, STUDIES)
        study, scale = STUDIES[self.name], self._scale()
        out = self.out or Path("runs") / f"reproduce-{self.name}{'-quick' if self.quick else ''}"
        try:
            with show_grid(study.name) as (cells, say):
                result = reproduce(study, out, scale, Watch(cells, say), resume=self.resume, overwrite=self.overwrite)
        except KeyboardInterrupt:  # while judging, timing or drawing; a training ends by itself and saves
            result = None
        if result is None:
            _show.say(f"Stopped; what is finished is safe in {out}. Go on with the same command and --resume.")
            return 130
        if self.json:
            _show.as_json(result)
            return 0
        _show.table(HEAD, table_rows(result["rows"]))
        if result.get("cost"):
            _show.table(*cost_table(result["cost"]))
        _show.say(f"{scale.describe().capitalize()}. See {result['report']}; the numbers are in {out / 'result.json'}.")
        return 0

    def _scale(self) -> Scale:
        plain = QUICK if self.quick else Scale()
        given = {name: getattr(self, name) for name in ("seeds", "steps", "n_tasks")}
        scale = plain._replace(
            seed=self.seed, only=self.only, **{name: value for name, value in given.items() if value is not None}
        )
        for name, least in {"seeds": 1, "seed": 0, "steps": 1, "n_tasks": 2}.items():
            if getattr(scale, name) < least:
                raise FewstepError(
                    f"--{name.replace('_', '-')} is {getattr(scale, name)}. It must be at least {least}."
                )
        return scale
