"""Whether `auto` is ever worse than its own member that does not learn from a task's rows, where learning cannot help.

python benchmarks/no_harm.py

Each scenario generates collections of tasks, one for each seed, trains `auto` on it, and compares its error with that
of its member `pooled` on the same rows of the same test tasks. The difference is paired by seed; its mean and 95%
interval are relative to the error of `pooled`. `auto` is harmed if the whole interval lies above 0, unless it is worse
by less than 1%. What the file of the result has already is not computed again.

- absurd: tasks differ by an offset, and training is clean; at test one of the rows to learn from, or each of them, has
  an absurd target. Of `honest-far` the whole task lies far from all training tasks, and learning must help;
- first-first, random-first: the level of a task walks or switches, so that its first rows do not tell, and `auto` is
  trained to learn from first rows, or from random ones while tests are with first ones;
- classes-alike, classes-noise: classes whose tasks do not differ, and classes that nothing predicts;
- numbers-alike: numbers whose tasks do not differ.
"""

import dataclasses
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tyro

from fewstep.experiments import Experiment
from fewstep.files import write_json
from fewstep.machine.compilation import keep_compiled
from fewstep.models import Model, fit_table
from fewstep.problems import IN_MEMORY, answer_tasks, draws_of, half_width, task_errors
from fewstep.tables import Frame, Roles, Rows, Table, make_table

OUT = Path(__file__).parent / "results" / "no-harm.json"
WORTH = 0.01  # of the error of `pooled`: less is no harm
SHOTS = 5


@dataclasses.dataclass(frozen=True)
class Options:
    """Trainings of `auto` on generated collections."""

    seeds: int = 20
    """Collections of each scenario."""
    first: int = 0
    """The seed of the first."""
    scenarios: tuple[str, ...] = ()
    """Some of the scenarios (default: all)."""
    tasks: int = 40
    """Tasks of a collection."""
    rows: int = 30
    """Rows of a task."""
    effort: float = 0.2
    """`effort` of `auto`."""
    member_seeds: int = 1
    """`member_seeds` of `auto`."""
    members: tuple[str, ...] = ()
    """`members` of `auto`, `pooled` among them (default: all)."""
    out: Path = OUT
    """The file of the result."""


class Collection(NamedTuple):
    """The rows of all tasks, (tasks, rows): features, the time, and what is to be predicted, numbers or texts."""

    x: np.ndarray
    t: np.ndarray
    y: np.ndarray


Spoil = Callable[[np.ndarray, np.random.Generator], np.ndarray]


class Scenario(NamedTuple):
    """How a collection is generated; whether training learns from a task's first rows; and what becomes of the test
    tasks' targets, (tasks, rows), by name: the first rows of each are then learned from."""

    make: Callable[[np.random.Generator, int, int], Collection]
    first: bool = False
    spoils: Mapping[str, Spoil] = {}


def _features(rng: np.random.Generator, tasks: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two features, the time, and what they say alike in all tasks."""
    x = rng.uniform(-2, 2, (tasks, rows, 2))
    t = np.broadcast_to(np.arange(rows, dtype=float), (tasks, rows))
    return x, t, np.sin(2 * x[..., 0]) + 0.5 * x[..., 1]


def offsets(rng: np.random.Generator, tasks: int, rows: int) -> Collection:
    """Tasks that differ by an offset, around 50 units."""
    x, t, base = _features(rng, tasks, rows)
    y = base + rng.standard_normal((tasks, 1)) + 0.3 * rng.standard_normal((tasks, rows))
    return Collection(x, t, 50 + 10 * y)


def changes(rng: np.random.Generator, tasks: int, rows: int) -> Collection:
    """Levels that walk with a drift in every other task, and in the others switch once after the first rows."""
    x, t, base = _features(rng, tasks, rows)
    steps = 0.5 * rng.standard_normal((tasks, rows)) + 0.2 * rng.standard_normal((tasks, 1))
    before, after = rng.standard_normal((2, tasks, 1))
    switch = np.where(t < rng.integers(SHOTS, 2 * SHOTS, (tasks, 1)), before, after)
    level = np.where(np.arange(tasks)[:, None] % 2, np.cumsum(steps, axis=1), switch)
    return Collection(x, t, base + level + 0.3 * rng.standard_normal((tasks, rows)))


def alike(rng: np.random.Generator, tasks: int, rows: int) -> Collection:
    """Tasks that do not differ."""
    x, t, base = _features(rng, tasks, rows)
    return Collection(x, t, base + 0.5 * rng.standard_normal((tasks, rows)))


def classes_alike(rng: np.random.Generator, tasks: int, rows: int) -> Collection:
    """Two classes, which the features predict alike in all tasks."""
    x, t, base = _features(rng, tasks, rows)
    return Collection(x, t, np.where(rng.uniform(size=t.shape) < 1 / (1 + np.exp(-2 * base)), "yes", "no"))


def classes_noise(rng: np.random.Generator, tasks: int, rows: int) -> Collection:
    """Two classes, which nothing predicts."""
    x, t, _ = _features(rng, tasks, rows)
    return Collection(x, t, np.where(rng.uniform(size=t.shape) < 0.5, "yes", "no"))


def unchanged(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The targets as they are."""
    return y


def _one(change: Callable[[np.ndarray], np.ndarray | float]) -> Spoil:
    """Changes one of the rows to learn from, at random."""

    def spoil(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        chosen = np.arange(y.shape[1]) == rng.integers(SHOTS, size=(len(y), 1))
        return np.where(chosen, change(y), y)

    return spoil


def _all(change: Callable[[np.ndarray], np.ndarray | float]) -> Spoil:
    """Changes all rows to learn from."""
    return lambda y, rng: np.where(np.arange(y.shape[1]) < SHOTS, change(y), y)


ABSURD: dict[str, Spoil] = {
    "clean": unchanged,
    "one-99999": _one(lambda y: 99999.0),
    "one-unit": _one(lambda y: 1000 * y),
    "one-ten-times": _one(lambda y: 10 * y),
    "one-sign": _one(lambda y: -y),
    "all-99999": _all(lambda y: 99999.0),
    "all-unit": _all(lambda y: 1000 * y),
    "all-sign": _all(lambda y: -y),
    "honest-far": lambda y, rng: y + 60,  # whole tasks, four deviations of the target away
}
SCENARIOS = {
    "absurd": Scenario(offsets, spoils=ABSURD),
    "random-first": Scenario(changes, spoils={"first rows": unchanged, "random rows": unchanged}),
    "numbers-alike": Scenario(alike),
    "first-first": Scenario(changes, first=True, spoils={"first rows": unchanged}),
    "classes-alike": Scenario(classes_alike),
    "classes-noise": Scenario(classes_noise),
}


def table_of(collection: Collection, *, first: bool) -> Table:
    """A collection as a table made ready."""
    tasks, rows = collection.t.shape
    columns = {
        "task": np.repeat([f"t{n:03}" for n in range(tasks)], rows), "t": collection.t.ravel(),
        "a": collection.x[..., 0].ravel(), "b": collection.x[..., 1].ravel(), "y": collection.y.ravel(),
    }  # fmt: skip
    cells = {name: np.asarray([str(value) for value in values], object) for name, values in columns.items()}
    roles = Roles("task", ("t", "a", "b"), "y")
    return make_table(Frame("collection", cells), roles._replace(support="first", order="t") if first else roles)


def trained(table: Table, options: Options, like: Model | None = None) -> Model:
    """`auto` after its training on a table, with the programs of a model of a table of the same shapes."""
    experiment = Experiment(
        "auto", IN_MEMORY, shots=SHOTS, effort=options.effort, members=tuple(options.members),
        member_seeds=options.member_seeds, schema=table.schema.to_dict(),
    )  # fmt: skip
    return fit_table(experiment, table, like=like).model


def tested(table: Table, spoil: Spoil, rng: np.random.Generator) -> Rows:
    """The test tasks, of which the first rows are learned from; their targets are spoiled."""
    rows, target = table.parts["test"], table.schema.target
    y = target.decode(rows.y.astype(float)).reshape(len(rows.names), -1)
    spoiled = target.numbers(spoil(y, rng).ravel())
    return rows._replace(y=spoiled.astype(rows.y.dtype), support="first")


def error(model: Model, rows: Rows) -> float:
    """The error on rows that are not learned from: the root of the mean square, or the log loss."""
    classes = model.problem.classes
    answers = answer_tasks(
        model.learner(), tuple(model.finite.values()), rows, shots=SHOTS, steps=(model.steps,), samples=model.samples,
        draws=draws_of(rows), classes=classes,
    )  # fmt: skip
    mean = task_errors(answers, classes=classes).mean()
    return float(mean if classes else mean**0.5)


Shapes = tuple[bool, bool]


def measured(name: str, seed: int, options: Options, models: dict[Shapes, Model]) -> Iterator[dict[str, Any]]:
    """The errors of one collection, for each of what becomes of its test tasks. The first model of collections of the
    same shapes is kept among the `models`, for its programs."""
    scenario = SCENARIOS[name]
    rng = np.random.default_rng((seed, list(SCENARIOS).index(name)))
    table = table_of(scenario.make(rng, options.tasks, options.rows), first=scenario.first)
    shapes = (bool(table.schema.classes), scenario.first)
    model = trained(table, options, models.get(shapes))
    models.setdefault(shapes, model)
    for what, spoil in (scenario.spoils or {"random rows": unchanged}).items():
        rows = table.parts["test"] if what == "random rows" else tested(table, spoil, rng)
        yield {"scenario": name, "test": what, "seed": seed, "auto": error(model, rows),
               "pooled": error(model.parts["pooled"], rows)}  # fmt: skip


def summary(errors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each scenario and test: mean errors, their paired difference and the verdict."""
    rows = []
    for name, what in dict.fromkeys((one["scenario"], one["test"]) for one in errors):
        own = [one for one in errors if (one["scenario"], one["test"]) == (name, what)]
        auto, pooled = (np.asarray([one[key] for one in own]) for key in ("auto", "pooled"))
        apart = auto / pooled - 1
        mean, half = float(apart.mean()), half_width(apart)
        rows.append({
            "scenario": name, "test": what, "seeds": len(own), "auto": round(float(auto.mean()), 4),
            "pooled": round(float(pooled.mean()), 4), "difference": round(mean, 4), "interval95": round(half, 4),
            "worst": round(float(apart.max()), 4), "verdict": verdict(mean - half, mean + half),
        })  # fmt: skip
    return rows


def verdict(low: float, high: float) -> str:
    """What the ends of an interval say."""
    if high < 0:
        return "better"
    if low > 0:
        return "harmed" if high > WORTH else "worse by less than 1%"
    return "within noise"


def main(options: Options) -> None:
    """Seed after seed; the result so far is written after each collection."""
    from fewstep_studies.reproduce import made_with

    keep_compiled()
    result: dict[str, Any] = {
        "name": "no-harm", "command": shlex.join(["python", "benchmarks/no_harm.py", *sys.argv[1:]]),
        "settings": {"tasks": options.tasks, "rows": options.rows, "effort": options.effort, "shots": SHOTS,
                     "member_seeds": options.member_seeds, "members": options.members or "all"},
    }  # fmt: skip
    before = json.loads(options.out.read_text()) if options.out.exists() else {}
    errors: list[dict[str, Any]] = (
        before["errors"] if before.get("settings") == json.loads(json.dumps(result["settings"])) else []
    )
    done = {(one["scenario"], one["seed"]) for one in errors}
    models: dict[Shapes, Model] = {}
    for seed in range(options.first, options.first + options.seeds):
        for name in options.scenarios or SCENARIOS:
            if (name, seed) in done:
                continue
            begin, core = time.monotonic(), time.process_time()
            errors += measured(name, seed, options, models)
            took = f"{time.monotonic() - begin:.1f} s, {time.process_time() - core:.1f} of cores"
            print(f"seed {seed}, {name}: {took}", file=sys.stderr, flush=True)
            write_json(options.out, result | {"rows": summary(errors), "errors": errors, **made_with("scikit-learn")})
    print(json.dumps(summary(errors), indent=1))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
