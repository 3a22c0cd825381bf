"""Curves: points of a function that is drawn anew for every task. Your own task distributions are of this kind too."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from markupsafe import Markup

from fewstep._episode import Batch, Tasks
from fewstep._errors import FewstepError
from fewstep._streams import UNSEEN
from fewstep.files import called, function_of
from fewstep.problems._drawing import draw_tasks
from fewstep.problems._kind import Facts, Kind, Problem, Sketch
from fewstep.problems._options import Options, from_signature, option
from fewstep.problems._points import MEMBERS, Perceptron, PointSizes, points_problem, read_points, write_points
from fewstep.tasks import TASKS, fewer_shots

_CURVE = 200  # points of a curve that is drawn
_RANGES = 256  # tasks that show where curves lie


@dataclasses.dataclass(frozen=True)
class CurveSizes(PointSizes):
    """The sizes of a task in training."""

    min_shots: int = option(
        0, "Draw in training how many points are learned from, between this and --shots; 0: always --shots.", min=0
    )


def _factory(tasks: str) -> Callable[..., Tasks]:
    return function_of("tasks", tasks, "(shots, queries)", TASKS)


def _options(tasks: str) -> type:
    groups = CurveSizes, from_signature("Curves", _factory(tasks), changes=True)
    fields = {field.name: (field.name, field.type, field) for group in groups for field in dataclasses.fields(group)}
    return dataclasses.make_dataclass("Curves", fields.values(), frozen=True)


def _problem(tasks: str, options: Options, network: Options) -> Problem:
    factory = _factory(tasks)
    names = [field.name for field in dataclasses.fields(from_signature("Curves", factory))]
    own = {name: getattr(options, name) for name in names}
    splits = "split" in inspect.signature(factory).parameters
    fewest = 0 if "min_shots" in own else options.min_shots
    if fewest > options.shots:
        raise FewstepError(f"`min_shots` is {fewest} and `shots` is {options.shots}. Give the smaller number first.")

    def make(shots: int, queries: int, split: str = "train", ways: int | None = None) -> Tasks:
        if ways is not None:
            raise FewstepError(f"`ways` does not apply: {tasks} has no classes. Leave it out.")
        result = called(f"{tasks}({shots}, {queries})", partial(factory, **own, **({"split": split} if splits else {})),
                      shots, queries)  # fmt: skip
        if not isinstance(result, Tasks):
            raise FewstepError(f"{tasks} returns a {type(result).__name__}. Let it return fewstep.Tasks(data, sample).")
        return fewer_shots(result, fewest) if split == "train" and 0 < fewest < shots == options.shots else result

    return points_problem(make, network)


def draw_curves(problem: Problem, sketches: list[Sketch]) -> list[Markup]:
    """Unseen tasks before and after adaptation."""
    return draw_tasks(problem, sketches, UNSEEN)


def _describe(problem: Problem) -> Facts:
    """Where curves lie, in x and y, if x is one number."""
    tasks = problem.tasks(1, 32)
    if problem.x != (1,) or not _has_range(tasks):
        return {}

    @jax.jit
    def values(key: jax.Array) -> jax.Array:
        return jax.vmap(lambda key: tasks.sample(tasks.data, key).query.y)(jax.random.split(key, _RANGES))

    y = np.asarray(values(jax.random.key(0)))
    return {"x_range": np.asarray(tasks.data["x_range"]).tolist(), "y_range": [float(y.min()), float(y.max())]}


def _has_range(tasks: Tasks) -> bool:
    return isinstance(tasks.data, Mapping) and "x_range" in tasks.data


def _example(problem: Problem, max_shots: int) -> Callable[[int, int], Facts]:
    """A function that draws a curve: points to learn from, and the curve itself. As many shots as can be asked for are
    drawn, and cut to those that are: one program for every number."""
    tasks = problem.tasks(max_shots, 1)
    if problem.x != (1,):
        reason = "The model's x has more than one number, so no curve can be drawn."
        raise FewstepError(f"{reason} Send points of your own.", code="does_not_apply")
    if not _has_range(tasks):
        reason = 'The tasks have no "x_range" in their data, so no curve can be drawn.'
        raise FewstepError(f"{reason} Send points of your own.", code="does_not_apply")
    low, high = np.asarray(tasks.data["x_range"]).tolist()
    x = np.linspace(low, high, _CURVE)

    @jax.jit
    def draw(seed: jax.Array) -> tuple[Batch, jax.Array]:
        key = jax.random.key(seed)
        # One key gives one curve. Drawn from a range that is a single place, its only query point lies just there.
        at = lambda place: tasks.sample(tasks.data | {"x_range": jnp.stack([place, place])}, key).query.y[0, 0]
        return tasks.sample(tasks.data, key).support, jax.vmap(at)(jnp.asarray(x, jnp.float32))

    def example(seed: int, shots: int) -> Facts:
        support, y = jax.tree.map(np.asarray, draw(jnp.asarray(seed)))
        points = {"x": support.x[:shots].tolist(), "y": support.y[:shots].tolist()}
        return {"support": points, "curve": {"x": x.tolist(), "y": y.tolist()}}

    return example


CURVES = Kind(
    "curve", tuple(TASKS), _problem, _options, lambda tasks: Perceptron, lambda tasks, method, given: {}, read_points,
    write_points, draw_curves, example=_example, describe=_describe,
    members=(*MEMBERS, "gaussian"),
)  # fmt: skip
OWN_CURVES = dataclasses.replace(CURVES, members=MEMBERS)  # whose y may have several numbers, or classes
