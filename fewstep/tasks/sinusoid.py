"""Sine waves of random amplitude, frequency and phase: the toy problem of MAML, Meta-SGD and MT-net."""

import math
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._episode import Arrays, Tasks
from fewstep.tasks._curves import CONDITIONED, Range, curves


def sinusoid(
    shots: int = 10,
    queries: int = 10,
    *,
    amplitude: Annotated[Range, "Range of a sine wave's amplitude."] = (0.1, 5.0),
    frequency: Annotated[Range, "Range of its frequency."] = (0.8, 1.2),
    phase: Annotated[Range, "Range of its phase."] = (0.0, math.pi),
    x_range: Annotated[Range, "Range of x."] = (-5.0, 5.0),
    conditioned: Annotated[bool, CONDITIONED] = False,
) -> Tasks:
    r"""Tasks `y = A sin(w x - b)`, each with its own A, w and b, drawn evenly from their ranges.

    The sign of b is that of the MT-net code; the paper prints a plus, which mirrors every task.

    **Arguments:** `shots` and `queries` are the sizes of support and query; the ranges are those of MT-net's sine
    experiment. MAML's has `frequency=(1, 1)`. `conditioned` puts A, w and b beside x.

    **Returns:** `Tasks`. One key gives one wave: asking it for more query points does not change wave or support.
    """
    ranges = {"amplitude": amplitude, "frequency": frequency, "phase": phase}

    def draw(data: Arrays, key: Key[Array, ""]) -> Float[Array, "3"]:
        low, high = jnp.stack([data[name] for name in ranges]).T
        return low + (high - low) * jax.random.uniform(key, (3,))

    def value(wave: Float[Array, "3"], x: Float[Array, "rows 1"]) -> Float[Array, "rows 1"]:
        height, speed, shift = wave
        return height * jnp.sin(speed * x - shift)

    return curves(draw, value, ranges, x_range, shots, queries, conditioned=conditioned)
