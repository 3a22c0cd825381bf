"""What several rules let a user choose, with the help that the command line shows."""

from typing import Annotated

import optax
from jaxtyping import Array

Inner = float | Array | optax.GradientTransformation  # the step size, or the inner optimizer
LayerNames = Annotated[tuple[str | int, ...] | None, "Layers by path or number; by default all that can"]
Temperature = Annotated[float, "Temperature of the masks' relaxation"]
Draw = Annotated[str, "How a mask is drawn: sample, expected (the probability) or threshold (probability >= 1/2)"]
Start = Annotated[float | Array | tuple[float, float], "The first value of all rates, or a range to draw it from"]
