"""`fewstep attack`"""

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Literal

import tyro

from fewstep._errors import FewstepError
from fewstep.attacks import ATTACKS
from fewstep.cli import _show
from fewstep.cli._arguments import NO_HINT
from fewstep.files import JSON
from fewstep.models import Assault, Attacked, attack_model
from fewstep.runs import load

_HELP = (
    f"The attacks: {', '.join(ATTACKS)}; standard or thorough are several, and with --on support it is pgd or square."
)


@dataclasses.dataclass(frozen=True)
class AttackRun:
    """Attack a run on unseen tasks: its accuracy when somebody perturbs what it is asked, or what it learns from.

    A query counts as right under "worst" only if it withstands every attack. Checks of whether the numbers can be
    believed are printed with every result.

    Examples of use:
      fewstep attack runs/characters --with pgd square --eps 2/255 8/255
      fewstep attack runs/characters --with standard --n-tasks 100 --json
      fewstep attack runs/characters --on support --with pgd --share 0.2
      fewstep attack omniglot-mtnet-5way --with spatial --eps 0.5 1
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or the name of a model that comes with the package."""
    attacks: Annotated[tuple[str, ...], tyro.conf.arg(name="with", help=_HELP)] = ("standard",)
    eps: tuple[str, ...] = ("8/255",)
    """Radii, as numbers or fractions; pixels go from 0 to 1."""
    on: Literal["query", "support"] = "query"
    """What is perturbed: the queries, or the support set, through adaptation."""
    share: float = 1.0
    """Of a support, the share of each class that is perturbed, at least one row."""
    shots: Annotated[int | None, NO_HINT] = None
    """Images of each class to learn from (default: as in training)."""
    ways: Annotated[int | None, NO_HINT] = None
    """Classes of a task (default: as in training)."""
    queries: int = 5
    """Queries of each class; of a poisoned support half of them are used to make it, and half to evaluate."""
    inner_steps: Annotated[int | None, NO_HINT] = None
    """Inner steps (default: as in training)."""
    n_tasks: int = 100
    """How many tasks."""
    split: Literal["test", "validation", "train"] = "test"
    """The classes to attack."""
    seed: int = 0
    """Seed of the tasks, the masks and the attacks."""
    checkpoint: Annotated[Literal["last", "best", "average"] | None, NO_HINT] = None
    """The last parameters, those best on the validation tasks, or the moving average (default: as the run's --keep
    says)."""
    data_dir: Annotated[Path | None, NO_HINT] = None
    """Folder to look for images in before anything is downloaded (default: the environment variable FEWSTEP_DATA)."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def __call__(self) -> int:
        _show.watch_data(self.data_dir)
        eps = tuple(dict.fromkeys(radius(text) for text in self.eps))
        model = load(self.run, which=self.checkpoint)
        for note in model.notes:
            _show.say(note)
        if self.inner_steps is not None and not model.built.steps:
            raise FewstepError(f"--inner-steps does not apply: {model.experiment.method} has none. Leave it out.")
        names = ("pgd",) if self.on == "support" and self.attacks == ("standard",) else self.attacks
        assault = Assault(
            names, eps, self.on, self.share, self.shots, self.ways, self.queries, self.inner_steps, self.n_tasks,
            self.split, self.seed,
        )  # fmt: skip
        found = attack_model(model, assault, _show.say)
        if self.json:
            head = {"run": str(self.run), "rule": model.experiment.method, "tasks": model.experiment.tasks}
            _show.print_json({**head, "on": self.on, **_plain(found)})
        else:
            _print(found)
        return 0


def radius(text: str) -> float:
    """A radius, as a number or a fraction: 8/255."""
    above, _, below = text.partition("/")
    try:
        value = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        raise FewstepError(f"--eps is {text!r}. Give numbers or fractions, such as 0.03 or 8/255.") from None
    if value < 0 or not math.isfinite(value):
        raise FewstepError(f"--eps is {text}. Give 0 or more.")
    return value


def _plain(found: Attacked) -> dict[str, JSON]:
    rows: list[JSON] = [
        {"attack": name, "eps": eps, "metric": "accuracy", "mean": score.mean, "interval95": score.interval95,
         "n_tasks": score.n_tasks, "shots": score.shots, "inner_steps": score.inner_steps}
        for name, scores in found.robustness.scores.items()
        for eps, score in zip(found.robustness.eps, scores, strict=True)
    ]  # fmt: skip
    return {"rows": rows, "checks": [dict(check._asdict()) for check in found.checks]}


def _print(found: Attacked) -> None:
    head = ["attack", *(f"eps {eps:.4g}" for eps in found.robustness.eps)]
    cells = [
        [name, *(f"{score.mean:.1%} ± {score.interval95:.1%}" for score in scores)]
        for name, scores in found.robustness.scores.items()
    ]
    _show.print_table(head, cells)
    for check in found.checks:
        _show.say(f"{'Checked' if check.holds else 'WARNING, does not hold'}: {check.name}. {check.text}")
