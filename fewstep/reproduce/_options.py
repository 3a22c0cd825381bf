"""What can be chosen of a study: declared once, each with a line of help, of which the command line is made."""

import dataclasses
from typing import Any

from fewstep._errors import FewstepError


def option(default: Any, help: str, *, min: int | None = None) -> Any:
    """A field that users can set; one without help is the study's own."""
    return dataclasses.field(default=default, metadata={"help": help, "min": min})


@dataclasses.dataclass(frozen=True)
class Options:
    """What every study takes."""

    seed: int = option(0, "The first of the seeds.", min=0)
    quick: bool = option(False, "A look in about a minute: a small size, marked as such in every output.")
    only: tuple[str, ...] = option((), "Cells of the grid to take, by the names of their folders or parts of them.")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, low = getattr(self, field.name), field.metadata.get("min")
            if low is not None and value is not None and value < low:
                raise FewstepError(f"`{field.name}` is {value}. It must be at least {low}.")

    def size(self) -> str:
        """The size in words."""
        return f"seed {self.seed}"


@dataclasses.dataclass(frozen=True)
class TrainingOptions(Options):
    """Of studies whose cells are trainings: the paper's size by default."""

    seeds: int = option(5, "Seeds, trained together.", min=1)
    steps: int = option(60_000, "Outer steps of each training.", min=1)
    n_tasks: int = option(600, "Test tasks.", min=2)

    def size(self) -> str:
        """The size in words."""
        return f"{self.length()}, {'one seed' if self.seeds == 1 else f'{self.seeds} seeds'}, {self.n_tasks} test tasks"

    def length(self) -> str:
        """How long each training is, in words."""
        return f"{self.steps:,} steps"

    @property
    def inner_steps(self) -> tuple[int, ...]:
        """The numbers of inner steps to evaluate after."""
        return (0, 1, 10, 100) if self.quick else (0, 1, 2, 3, 5, 10, 20, 30, 50, 100)


@dataclasses.dataclass(frozen=True)
class ImageOptions(TrainingOptions):
    """Of studies of images, which are trained row by row: `budget` in seconds takes the place of `steps`."""

    budget: float | None = option(None, "Train each row for so long, such as 30m or 2h, instead of a number of steps.")
    shots: tuple[int, ...] = option((), "Rows of so many shots.", min=None)

    def length(self) -> str:
        """How long each training is, in words."""
        return super().length() if self.budget is None else f"{self.budget / 60:g} minutes per row"


QUICK = TrainingOptions(seeds=1, steps=5000, n_tasks=100, quick=True)
