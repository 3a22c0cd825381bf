"""`fewstep reproduce`"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from fewstep import data
from fewstep._errors import FewstepError, unknown
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT
from fewstep.cli._budget import seconds_of
from fewstep.cli._progress import show_grid
from fewstep.cli._reproduce_curves import run_curves
from fewstep.cli._reproduce_layerwise import run_layerwise
from fewstep.cli._reproduce_universality import run_universality
from fewstep.reproduce import (
    HEAD,
    STUDIES,
    UNFINISHED,
    Scale,
    Study,
    Watch,
    cost_table,
    reproduce,
    table_rows,
    unfinished_rows,
)

LAYERWISE, UNIVERSALITY, CURVES = "layerwise", "universality", "curves"
_ALL = (*STUDIES, LAYERWISE, UNIVERSALITY, CURVES)
_NAMES = f"What to reproduce: {', '.join(_ALL)}."
_OF_STUDIES = ("seeds", "steps", "n_tasks", "budget", "shots", "images", "data_dir", "only")
_OF_LAYERWISE = ("folds", "untimed", "data_dir", "only")
_OF_UNIVERSALITY = ("target", "bins", "examples")
_OF_CURVES = ("steps", "data_dir", "only")


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Train the grid behind a published table or figure, and show ours beside the paper's.

    Examples of use:
      fewstep reproduce sinusoid --quick
      fewstep reproduce step-size --seeds 3 --json
      fewstep reproduce polynomial --resume
      fewstep reproduce omniglot --budget 30m --only mtnet-5way-1shot prototypes-1shot
      fewstep reproduce miniimagenet --images ~/miniimagenet
      fewstep reproduce layerwise --data-dir ~/data --only ism ws svm
      fewstep reproduce universality --target ridge mine.py:learner --bins 8
      fewstep reproduce curves --data-dir ~/data --only growth
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help=_NAMES)]
    """What to reproduce."""
    seeds: Annotated[int | None, NO_HINT] = None
    """Seeds, trained together (default: 5; images: 1)."""
    seed: int = 0
    """The first of the seeds."""
    steps: Annotated[int | None, NO_HINT] = None
    """Outer steps of each training (default: 60000, as in the paper; images: 40000)."""
    n_tasks: Annotated[int | None, NO_HINT] = None
    """Test tasks (default: 600, as in the paper)."""
    budget: Annotated[str | None, NO_HINT] = None
    """Train each row for so long, such as 30m or 2h, instead of for a number of steps (images only)."""
    shots: Annotated[tuple[int, ...], NO_HINT] = ()
    """Rows of so many shots (images only; default: omniglot 1; cifar-fs 1 5)."""
    images: Annotated[Path | None, NO_HINT] = None
    """Folder of the images of miniimagenet, which cannot be downloaded freely."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder to look for images in before anything is downloaded (default: the environment variable FEWSTEP_DATA)."""
    folds: Annotated[int | None, NO_HINT] = None
    """Folds of the cross-validation (layerwise only; default: 10, as in the poster)."""
    untimed: bool = False
    """Note no seconds, so that the folds may run beside other work (layerwise only)."""
    target: Annotated[tuple[str, ...], NO_HINT] = ()
    """Learners to express (universality only; default: nearest-neighbor ridge), or FILE.py:FUNCTION of yours, called
    as function(x, y, x_star) with x of shape (examples, 1), y (examples, 1) and x_star (1,), all from -1 to 1."""
    bins: Annotated[int | None, NO_HINT] = None
    """Bins of x and of x* (universality only; default: 8)."""
    examples: Annotated[int | None, NO_HINT] = None
    """Examples that the step sees (universality only; default: 1; nearest-neighbor 2)."""
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
        if self.name not in _ALL:
            raise unknown("reproduction", self.name, _ALL)
        if self.seed < 0:
            raise FewstepError(f"--seed is {self.seed}. It must be at least 0.")
        if self.name == LAYERWISE:
            return self._layerwise()
        if self.name == UNIVERSALITY:
            return self._universality()
        if self.name == CURVES:
            return self._curves()
        self._refuse_all_but(_OF_STUDIES)
        study = STUDIES[self.name]
        scale = self._scale(study)
        self._prepare(study)
        out = self.out or Path("runs") / f"reproduce-{self.name}{'-quick' if self.quick else ''}"
        try:
            with show_grid(study.name, scale.budget) as (cells, say):
                result = reproduce(study, out, scale, Watch(cells, say), resume=self.resume, overwrite=self.overwrite)
        except KeyboardInterrupt:  # while judging, timing or drawing; a training ends by itself and saves
            result = None
        if result is None:
            where = out / "report.html" if (out / "report.html").exists() else out
            _show.say(f"Stopped; what is reached is safe in {where}. Go on with the same command and --resume.")
            return 130
        if self.json:
            _show.as_json(result)
            return 0
        _show.table(HEAD, table_rows(result["rows"]))
        if result.get("cost"):
            _show.table(*cost_table(result["cost"]))
        if result.get("unfinished"):
            _show.table(UNFINISHED, unfinished_rows(result["unfinished"]))
        _show.say(f"{scale.describe().capitalize()}. See {result['report']}; the numbers are in {out / 'result.json'}.")
        return 0

    def _layerwise(self) -> int:
        """The poster's table: no tasks, but tables and folds."""
        self._refuse_all_but(_OF_LAYERWISE)
        return run_layerwise(
            self.out or Path("runs") / f"reproduce-{LAYERWISE}{'-quick' if self.quick else ''}", data_dir=self.data_dir,
            quick=self.quick, seed=self.seed, folds=self.folds, untimed=self.untimed, only=self.only,
            resume=self.resume, overwrite=self.overwrite, as_json=self.json,
        )  # fmt: skip

    def _universality(self) -> int:
        """The construction: no training, but a network made by hand."""
        self._refuse_all_but(_OF_UNIVERSALITY)
        return run_universality(
            self.out or Path("runs") / f"reproduce-{UNIVERSALITY}{'-quick' if self.quick else ''}", self.target,
            self.bins, self.examples, seed=self.seed, quick=self.quick, resume=self.resume, overwrite=self.overwrite,
            as_json=self.json,
        )  # fmt: skip

    def _curves(self) -> int:
        """Real tables, beside baselines: no paper, but five splits."""
        self._refuse_all_but(_OF_CURVES)
        return run_curves(
            self.out or Path("runs") / f"reproduce-{CURVES}{'-quick' if self.quick else ''}", data_dir=self.data_dir,
            quick=self.quick, seed=self.seed, steps=self.steps, only=self.only, resume=self.resume,
            overwrite=self.overwrite, as_json=self.json,
        )  # fmt: skip

    def _refuse_all_but(self, taken: tuple[str, ...]) -> None:
        """Refuses options that only other reproductions take."""
        for name in {*_OF_STUDIES, *_OF_LAYERWISE, *_OF_UNIVERSALITY} - set(taken):
            value = getattr(self, name)
            if value is not None and value is not False and value != ():  # 0 is a value
                raise FewstepError(f"--{name.replace('_', '-')} does not apply to {self.name}. Leave it out.")

    def _prepare(self, study: Study) -> None:
        """Says where the images are, and refuses what only studies of images take."""
        if not study.by_row:
            for name in ("budget", "shots", "images"):
                if getattr(self, name):
                    raise FewstepError(f"--{name} does not apply: {study.name} has no images. Leave it out.")
        if self.images and "--images" not in study.needs:
            raise FewstepError(f"--images does not apply: {study.name} is downloaded. Use --data-dir for your copy.")
        _show.watch_data(self.data_dir)
        if self.images:
            data.images_at(study.name, self.images)

    def _scale(self, study: Study) -> Scale:
        plain = study.quick if self.quick else study.scale
        given = {name: getattr(self, name) for name in ("seeds", "steps", "n_tasks")}
        if self.budget is not None and self.steps is not None:
            raise FewstepError("--budget and --steps are both given. Keep one.")
        budget = None if self.budget is None else seconds_of(self.budget)
        scale = plain._replace(
            seed=self.seed, only=self.only, shots=self.shots, budget=budget,
            **{name: value for name, value in given.items() if value is not None},
        )  # fmt: skip
        for name, least in {"seeds": 1, "steps": 1, "n_tasks": 2}.items():
            if getattr(scale, name) < least:
                raise FewstepError(
                    f"--{name.replace('_', '-')} is {getattr(scale, name)}. It must be at least {least}."
                )
        return scale
