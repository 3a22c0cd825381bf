"""A model that has learned a task, ready to answer; compiled once for supports and queries of about one size."""

from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._episode import Batch
from fewstep._errors import FewstepError
from fewstep._learner import Adapted
from fewstep._rule import Meta
from fewstep.models._calibration import Calibration
from fewstep.models._model import Members, Model, answer, learn
from fewstep.models._reject import fits
from fewstep.problems import Answer, Given, Value

LEVEL = 0.9


class Adaptation(NamedTuple):
    """A model after learning from so many rows; `distance` is how far the farthest lies outside of what training had,
    and `residual` what it leaves over on them.

    `answer(x)` asks it.
    """

    model: Model
    adapted: Adapted
    shots: int
    steps: int
    distance: float = 0.0
    ways: int | None = None
    norm: str | None = None
    residual: np.ndarray = np.zeros(1)

    @property
    def calibration(self) -> Calibration | None:
        """That of the model, if it is for these inner steps."""
        return self.model.calibration if self.steps == self.model.steps else None

    def answer(self, x: np.ndarray | jax.Array, *, level: float = LEVEL, distance: np.ndarray | float = 0.0) -> Answer:
        """What the model says at rows of x, of which each lies at a `distance` outside of what training had. Where the
        intervals are not calibrated, they are those of the deviation that the model reports itself, if it does.

        Raises `FewstepError` where that is not finite, and for a level that intervals are not calibrated for.
        """
        if not len(x):
            raise FewstepError("There are no rows to predict at. Give at least one.")
        rows = np.asarray(x, np.float32)
        _, ask = _programs(self.model, self.ways, self.norm, self.steps)
        padded = rows if self.norm == "transductive" else _pad(rows)
        mean, low, high, spread = (
            np.asarray(part, float)[: len(rows)] for part in ask(self.model.stacked, self.adapted, jnp.asarray(padded))
        )
        if not np.isfinite(mean).all():
            raise FewstepError(
                f"The adapted network predicts values that are not finite after {self.steps} inner steps. Take fewer "
                "steps, or bring the support set to the scale the run was trained on."
            )
        answer = Answer(mean, low, high, spread)
        if self.calibration is None:
            return predictive(answer, level) if self._reports_spread else answer
        far = distance + self.distance
        return calibrated(self.model, answer, self.shots, level=level, distance=far, residual=self.residual)

    @property
    def _reports_spread(self) -> bool:
        """Whether an interval is made of the deviation that the model reports itself: where it cannot be calibrated."""
        return self.model.problem.held_out is None and self.model.learner(self.ways, self.norm).spread is not None

    def unknown(self, x: np.ndarray | jax.Array) -> np.ndarray:
        """Which rows of x fit none of the classes that were learned. Raises `FewstepError` for a model without a
        threshold."""
        if self.model.rejection is None:
            raise FewstepError(
                "The model has no threshold for unknown classes: it is calibrated on the validation classes of a run. "
                "Train one, with at least three validation classes."
            )
        threshold = self.model.rejection.threshold(self.shots / max(1, self.ways or 1))
        values = fits(self.model, self.adapted, jnp.asarray(x), ways=self.ways, norm=self.norm)
        return np.asarray(values) < threshold


def predictive(answer: Answer, level: float = LEVEL) -> Answer:
    """An answer with the intervals of a normal distribution of its standard deviation."""
    half = NormalDist().inv_cdf((1 + level) / 2) * answer.spread
    return answer._replace(low=answer.mean - half, high=answer.mean + half, predictive=True)


def calibrated(
    model: Model, answer: Answer, shots: int, *, level: float = LEVEL, distance: np.ndarray | float = 0.0,
    residual: np.ndarray | float = 0.0,
) -> Answer:  # fmt: skip
    """An answer with the intervals or probabilities of a model that is calibrated, after learning from so many rows.
    `distance` is how far each row, and what was learned from, lies outside of what training had, and `residual` what
    the model leaves over on the rows learned from, as in `Info`."""
    known, mean, spread = model.calibration, np.asarray(answer.mean, float), np.asarray(answer.spread, float)
    assert known is not None
    if model.problem.classes:
        mean = known.probabilities(mean, shots)
        return Answer(mean, mean, mean, spread, calibrated=True)
    half = known.half(spread, residual, shots, level) + (np.reshape(distance, (-1, 1)) if np.size(distance) else 0.0)
    return Answer(mean, mean - half, mean + half, spread, calibrated=True)


def adapt(
    model: Model, support: Batch | Given | tuple[np.ndarray, np.ndarray], *, steps: int | None = None, seed: int = 0,
    ways: int | None = None, norm: str | None = None,
) -> Adaptation:  # fmt: skip
    """A model after it has learned a task.

    **Arguments:** the `support` as a `Batch`, a `Given` or a pair of x and y; inner `steps`, as in training by default;
    the `seed` of the masks; `ways` of the task, and `norm`, the statistics that images are normalized by.

    Example::

        adapt(load("runs/x"), fewstep.batch(x, y)).answer(x_query).mean
    """
    support = support.learned if isinstance(support, Given) else support
    given = support if isinstance(support, Given) else None
    x, y = (np.asarray(support.x), np.asarray(support.y)) if isinstance(support, Batch | Given) else support
    check_rows(model, "The support's x", x)
    count = model.steps if steps is None else steps
    distance = float(given.distance.max(initial=0.0)) if given is not None else 0.0
    ways = len(given.labels) if given is not None and model.problem.ways is not None else ways
    teach, _ = _programs(model, ways, norm, count)
    weight = np.asarray(support.weight) if isinstance(support, Batch) else np.ones(len(x), np.float32)
    batch = Batch(*(jnp.asarray(_pad(np.asarray(part))) for part in (x, y, weight.astype(np.float32))))
    adapted, residual = teach(model.stacked, jax.random.key(seed), batch)
    return Adaptation(model, adapted, len(x), count, distance, ways, norm, np.asarray(residual, float))


@lru_cache(maxsize=32)
def _programs(
    model: Model, ways: int | None, norm: str | None, steps: int
) -> tuple[Callable[..., tuple[Adapted, jax.Array]], Callable[..., Members]]:
    """The compiled functions that learn a task and answer, kept for the next task."""
    how: dict[str, Value] = {"ways": ways, "norm": norm}

    @jax.jit
    def teach(metas: Meta, key: jax.Array, support: Batch) -> tuple[Adapted, jax.Array]:
        adapted, info = learn(model, key, support, metas=metas, steps=steps, **how)
        return adapted, info.residual

    return teach, jax.jit(lambda metas, adapted, x: answer(model, adapted, x, metas=metas, **how))


def check_rows(model: Model, what: str, x: np.ndarray) -> None:
    """Raises for rows of another shape than those of the training."""
    if np.shape(x)[1:] != model.problem.x:
        shape = lambda rows: f"{rows[0]} columns" if len(rows) == 1 else f"rows of shape {rows}"
        trained = shape(model.problem.x)
        raise FewstepError(f"{what} has {shape(np.shape(x)[1:])} and the run was trained with {trained}.")


def _pad(rows: np.ndarray) -> np.ndarray:
    """Rows with zeros behind, to the next power of two, so that sets of many sizes share few compiled programs."""
    size = 1 << max(0, len(rows) - 1).bit_length()
    return np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)])
