"""A trained model of a table, ready to learn the next task: several seeds and samples of masks that answer as one."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._episode import Batch
from fewstep._errors import FewstepError
from fewstep._learner import Learner
from fewstep._rule import Meta
from fewstep.tables._frame import Frame
from fewstep.tables._interval import SHOTS, Calibration, calibrate, each_left_out
from fewstep.tables._judge import ask, draws_of
from fewstep.tables._outside import outside
from fewstep.tables._schema import Schema, clamped
from fewstep.tables._table import Rows


class Ensemble(NamedTuple):
    """What answers: a learner, the meta-parameters of each seed, how many samples of its masks each gives, the inner
    steps, and the table's columns."""

    learner: Learner
    metas: tuple[Meta, ...]
    steps: int
    samples: int
    schema: Schema
    calibration: Calibration | None = None

    def calibrated(self, held_out: Rows, shots: int, seed: int = 0) -> tuple["Ensemble", float | None]:
        """The ensemble with intervals that are right on held-out tasks, and the share of a task's values that 90 %
        intervals hold which were calibrated on the others; of classes, with probabilities that are right there."""
        classes = bool(self.schema.classes)
        most = min(max(2 * shots, 10), int(held_out.counts.min()) - 1)
        sizes = sorted({number for number in (*SHOTS, min(shots, most)) if 0 < number <= most})
        answers = {
            number: ask(
                self.learner, self.metas, held_out, shots=number, steps=(self.steps,), samples=self.samples,
                draws=draws_of(held_out, 200), classes=classes, seed=seed, within=most,
            )
            for number in sizes
        }  # fmt: skip
        if not answers:
            return self, None
        if classes:
            return self._replace(calibration=calibrate(answers, classes=True)), None
        at = max(number for number in sizes if number <= max(shots, sizes[0]))
        return self._replace(calibration=calibrate(answers)), each_left_out(answers[at], at)

    def adapted(
        self, x: np.ndarray, y: np.ndarray, *, steps: int | None = None, seed: int = 0, distance: float = 0.0
    ) -> "Adapted":
        """The ensemble after it has learned a task from encoded rows, of which the farthest lies that `distance`
        outside what training had."""
        support, count = _padded(x, y), self.steps if steps is None else steps
        learn, answer = _programs(self.learner, self.samples, count, bool(self.schema.classes))
        learned = [(meta, learn(meta, jax.random.key(seed), support)) for meta in self.metas]
        # Intervals are right for the steps they were calibrated with, and for no others.
        ensemble = self if count == self.steps else self._replace(calibration=None, steps=count)
        return Adapted(ensemble, [partial(answer, *pair) for pair in learned], len(x), distance)


@lru_cache(maxsize=32)
def _programs(learner: Learner, samples: int, steps: int, classes: bool) -> tuple[Any, Any]:
    """The compiled functions that learn a task and answer, kept for the next task."""

    @jax.jit
    def learn(meta: Meta, key: jax.Array, support: Batch) -> Any:
        keys = jax.vmap(lambda n: jax.random.fold_in(key, n))(jnp.arange(samples))
        return jax.vmap(lambda own: learner.adapt(meta, own, support, steps))(keys)

    @jax.jit
    def answer(meta: Meta, adapted: Any, x: jax.Array) -> jax.Array:
        made = jax.vmap(lambda one: learner.predict(meta, one, x))(adapted)
        return jax.nn.softmax(made) if classes else made

    return learn, answer


class Adapted(NamedTuple):
    """An ensemble that has learned a task from so many rows; `distance` is that of the farthest outside training's."""

    ensemble: Ensemble
    members: Sequence[Callable[[jax.Array], jax.Array]]
    shots: int
    distance: float = 0.0

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and spread of the members at encoded rows; probabilities of the classes, if it has classes."""
        if not len(x):
            raise FewstepError("There are no rows to predict at. Give at least one.")
        rows = _size(len(x))
        padded = jnp.asarray(np.concatenate([x, np.zeros((rows - len(x), x.shape[1]), x.dtype)]))
        made = np.concatenate([np.asarray(member(padded), float) for member in self.members])[:, : len(x)]
        if not np.isfinite(made).all():
            raise FewstepError(
                f"The adapted model predicts values that are not finite after {self.ensemble.steps} inner steps. Take "
                "fewer steps, or check the rows it learned from: are they in the unit of the training's?"
            )
        mean, known = made.mean(0), self.ensemble.calibration
        if known is not None and self.ensemble.schema.classes:
            mean = known.probabilities(mean, self.shots)
        return mean, made.std(0)

    def answers(self, frame: Frame, level: float = 0.9) -> dict[str, np.ndarray]:
        """The predictions at the rows of a table, in the user's unit, with an interval; or classes, with the
        probability of each."""
        schema = self.ensemble.schema
        x = schema.unbounded(frame)
        mean, spread = self.predict(clamped(x))
        if schema.classes:
            told = {"prediction": np.asarray(schema.classes, object)[mean.argmax(1)]}
            return told | {f"probability of {name}": mean[:, n] for n, name in enumerate(schema.classes)}
        told = {"prediction": schema.target.decode(mean[:, 0])}
        if self.ensemble.calibration is not None:
            half = self.half(spread, outside(schema, frame, x).distance, level)
            told |= {"low": told["prediction"] - half, "high": told["prediction"] + half}
        return told

    def half(self, spread: np.ndarray, distance: np.ndarray, level: float = 0.9) -> np.ndarray:
        """Half the interval around predictions of that spread, in the user's unit, at rows of that `distance` outside
        what training had."""
        assert self.ensemble.calibration is not None
        inside = self.ensemble.calibration.half(spread, self.shots, level)[:, 0]
        return (inside + distance + self.distance) * self.ensemble.schema.target.scale


def learn_from(ensemble: Ensemble, frame: Frame, *, steps: int | None = None, seed: int = 0) -> Adapted:
    """The ensemble after learning the task of a table's rows."""
    x, y = ensemble.schema.unbounded(frame), ensemble.schema.y(frame)
    distance = float(outside(ensemble.schema, frame, x, y).distance.max())
    return ensemble.adapted(clamped(x), y, steps=steps, seed=seed, distance=distance)


def _padded(x: np.ndarray, y: np.ndarray) -> Batch:
    """Rows with others of weight 0 behind, so that supports of many sizes share few compiled programs."""
    rows = _size(len(x))
    fill = lambda array: np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])
    return Batch(jnp.asarray(fill(x)), jnp.asarray(fill(y)), jnp.asarray(fill(np.ones(len(x), np.float32))))


def _size(rows: int) -> int:
    """The next power of two."""
    return 1 << max(0, rows - 1).bit_length()
