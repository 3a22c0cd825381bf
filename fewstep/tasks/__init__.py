"""Task distributions: factories of `Tasks`, by name."""

from fewstep.tasks.polynomial import polynomial as polynomial
from fewstep.tasks.sinusoid import sinusoid as sinusoid

TASKS = {"sinusoid": sinusoid, "polynomial": polynomial}
