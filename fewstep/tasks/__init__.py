"""Task distributions: factories of `Tasks`, by name."""

from collections.abc import Callable

from fewstep._episode import Tasks
from fewstep.tasks._batch import batch as batch
from fewstep.tasks.polynomial import polynomial as polynomial
from fewstep.tasks.sinusoid import sinusoid as sinusoid

TASKS: dict[str, Callable[..., Tasks]] = {"sinusoid": sinusoid, "polynomial": polynomial}
