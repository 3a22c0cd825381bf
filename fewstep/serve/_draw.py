"""A random task that training never saw, as a client would send it."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fewstep import data
from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep.serve._images import write_image
from fewstep.serve._models import Served
from fewstep.serve._reading import at_most
from fewstep.serve._refusal import invalid, not_found
from fewstep.serve._schema import Curve, Drawn, DrawTask, Points

_CURVE = 200
_SHOTS = 100
_QUERIES = 1  # images of each class to recognize


class Drawer:
    """Draws tasks; what it loads and compiles for a model it keeps. As many shots as can be asked for are drawn, and
    then cut to those that are: one program, and one copy of the data, for every number."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], Callable[[int], Any]] = {}
        self._making = threading.Lock()

    def draw(self, served: Served, asked: DrawTask) -> Drawn:
        """Draws a task of the model's kind; blocks."""
        shots = asked.shots or served.model.run.experiment.shots
        if served.kind == "table":
            raise invalid(
                "does_not_apply", "A table's tasks are its owner's; none can be drawn. Send rows of your own."
            )
        at_most("points", shots * (served.ways or 1), served.limits.points)
        if served.kind == "curve":
            return self._curve(served, asked.seed, min(shots, _SHOTS))
        return self._images(served, asked.seed, shots)

    def _curve(self, served: Served, seed: int, shots: int) -> Drawn:
        if served.model.built.problem.widths[0] != 1:
            raise invalid("does_not_apply", "The model's x has more than one number, so a task is no curve to draw.")
        support, x, y = self._of(served, "curve", _curves)(seed)
        points = Points(x=support.x[:shots].tolist(), y=support.y[:shots].tolist())
        return Drawn(points, curve=Curve(x.tolist(), y.tolist()))

    def _images(self, served: Served, seed: int, shots: int) -> Drawn:
        tasks = served.model.run.experiment.tasks
        split = _split(tasks)
        if split is None:
            told = "Start the service with --data-dir FOLDER, or fetch them first: fewstep data get NAME."
            raise not_found("no_data", f"No task can be drawn, for the images of {served.name} are not here. {told}")
        episode, invert = self._of(served, split, partial(_pictures, split=split))(seed), tasks == "omniglot"
        support, most = episode.support, int((episode.support.y == 0).sum())
        if shots > most:
            told = f"At most {most} shots can be drawn of the images of {served.name}, and {shots} were asked for."
            raise invalid("does_not_fit", f"{told} Ask for fewer.")
        first = np.arange(len(support.y)) % most < shots  # of each class
        return Drawn(
            _drawn(jax.tree.map(lambda leaf: leaf[first], support), invert), query=_drawn(episode.query, invert)
        )

    def _of(self, served: Served, kind: str, make: Callable[[Served], Callable[[int], Any]]) -> Callable[[int], Any]:
        with self._making:  # two who ask at once do not load twice
            if (served.name, kind) not in self._made:
                self._made[served.name, kind] = make(served)
            return self._made[served.name, kind]


def _curves(served: Served) -> Callable[[int], Any]:
    tasks = served.model.built.problem.tasks(_SHOTS, 1)
    low, high = np.asarray(tasks.data["x_range"]).tolist()
    x = np.linspace(low, high, _CURVE)

    @jax.jit
    def draw(seed: jax.Array) -> tuple[Batch, jax.Array]:
        key = jax.random.key(seed)
        # One key gives one curve. Drawn from a range that is a single place, its only query point lies just there.
        at = lambda place: tasks.sample(tasks.data | {"x_range": jnp.stack([place, place])}, key).query.y[0, 0]
        return tasks.sample(tasks.data, key).support, jax.vmap(at)(jnp.asarray(x, jnp.float32))

    def drawn(seed: int) -> tuple[Batch, np.ndarray, np.ndarray]:
        support, y = draw(jnp.asarray(seed))
        return jax.tree.map(np.asarray, support), x, np.asarray(y)

    return drawn


def _pictures(served: Served, split: str) -> Callable[[int], Episode]:
    """Episodes with as many shots as the limit allows and the smallest class has."""
    problem = served.model.built.problem
    try:
        data = problem.tasks(1, _QUERIES, split).data
        fit = int(np.asarray(data["counts"]).min()) - _QUERIES
        most = max(1, min(fit, served.limits.points // (served.ways or 1), _SHOTS))
        sample = problem.tasks(most, _QUERIES, split).sample
    except FewstepError as error:
        raise invalid("does_not_fit", str(error)) from None
    draw = jax.jit(lambda data, seed: sample(data, jax.random.key(seed)))
    return lambda seed: jax.tree.map(np.asarray, draw(data, jnp.asarray(seed)))


def _drawn(batch: Batch, invert: bool) -> Points:
    images = [write_image(np.asarray(x), invert=invert) for x in batch.x]
    return Points(images=images, labels=[_letter(int(label)) for label in batch.y])


def _split(tasks: str) -> str | None:
    """The images to draw from: those on this machine, else those that come with the package; a client's request is no
    reason to download."""
    here = Path(tasks.removeprefix("folder:")).exists() if tasks.startswith("folder:") else data.find(tasks) is not None
    return "test" if here else "sample" if data.info(tasks).sample else None


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number + 1)
