"""A trained run as something that can be judged and used."""

import dataclasses
import difflib
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from fewstep._episode import Batch, Episode, Tasks
from fewstep._errors import FewstepError
from fewstep._rule import Meta
from fewstep.evaluation import make_evaluate, summarize
from fewstep.experiments.build import Built, build, inner_steps
from fewstep.experiments.learners import trained_ways
from fewstep.files import is_locked
from fewstep.models.shipped import read_about, read_meta, shipped
from fewstep.problems.problem import problem
from fewstep.runs.run import Run, open_run

Which = Literal["last", "best"]
Draw = Literal["sample", "expected", "threshold"]
Row = dict[str, Any]


class Model(NamedTuple):
    """A run's parts and its meta-parameters, one for each seed; `notes` tells of checkpoints that were passed over;
    `usual` says that these are the last parameters and the training's own draws, which intervals are calibrated for."""

    run: Run
    built: Built
    metas: list[Meta]
    step: int
    notes: list[str]
    usual: bool = True

    @property
    def inner_steps(self) -> int:
        """The inner steps it was trained with."""
        return inner_steps(self.run.experiment)

    @property
    def whole(self) -> dict[int, Meta]:
        """The meta-parameters of the seeds that did not diverge in training, by seed."""
        finite = lambda meta: all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(meta))
        return {seed: meta for seed, meta in zip(self.run.seeds, self.metas, strict=True) if finite(meta)}

    def meta(self, seed: int | None = None) -> Meta:
        """The meta-parameters of one of the run's seeds, the first by default."""
        if seed is not None and seed not in self.run.seeds:
            raise FewstepError(f"The run has no seed {seed}. It has {', '.join(map(str, self.run.seeds))}.")
        return self.metas[0 if seed is None else self.run.seeds.index(seed)]


def load(path: Path | str, *, which: Which = "last", draw: Draw | None = None) -> Model:
    """Loads a run: its `last` parameters, or those that were `best` on the validation tasks.

    **Arguments:** the run's folder, or the name of a model that comes with the package; `draw`
    replaces the way masks are drawn (`sample`, `expected`, `threshold`).

    Example::

        model = load("runs/x")
        prediction = adapt(model, support, query_x)
    """
    if not Path(path).exists():
        if str(path) in shipped():
            return _load_shipped(str(path), draw)
        if close := difflib.get_close_matches(str(path), shipped()):
            raise FewstepError(f"There is no run folder {path}. Did you mean the package's model '{close[0]}'?")
    run = open_run(Path(path))
    # Checked against the experiment as it was asked for now, so that a draw for a rule without a mask is refused.
    built = build(dataclasses.replace(run.experiment, draw=draw) if draw else run.experiment)
    state, notes = run.state(built)
    if state is None:
        raise FewstepError(_without_checkpoint(run, notes))
    stack = state.best.meta if which == "best" and bool(np.isfinite(state.best.score).all()) else state.meta
    metas = [jax.tree.map(lambda leaf, n=number: leaf[n], stack) for number in range(len(run.seeds))]
    return Model(run, built, metas, int(state.step), notes, usual=which == "last" and draw is None)


def _without_checkpoint(run: Run, notes: list[str]) -> str:
    again = f"fewstep train {run.experiment.method} {run.experiment.tasks} ... --run {run.path}"
    if notes:
        return f"{run.path} holds no whole checkpoint. {' '.join(notes)} Train it anew: {again} --overwrite"
    if is_locked(run.path):
        return (
            f"{run.path} has no checkpoint yet: a process is training it now, and saves the first one some seconds "
            "after compiling. Wait for it, and run this command again."
        )
    return (
        f"{run.path} has no checkpoint: its training ended before the first one was saved. Run the command that began "
        f"it again: {again}"
    )


def _load_shipped(name: str, draw: Draw | None) -> Model:
    experiment, step = read_about(name)
    built = build(dataclasses.replace(experiment, draw=draw) if draw else experiment)
    return Model(Run(Path(name), dataclasses.replace(experiment, seeds=1)), built, [read_meta(name, built)], step, [])


def evaluate_run(
    model: Model,
    *,
    shots: tuple[int, ...],
    steps: tuple[int, ...],
    n_tasks: int = 600,
    queries: int | None = None,
    ways: int | None = None,
    split: str = "test",
    seed: int = 0,
    say: Callable[[str], None] = lambda message: None,
    changes: dict[str, Any] | None = None,
    on: Literal["query", "support"] = "query",
    norms: tuple[str | None, ...] | None = None,
) -> list[Row]:
    """One row for each number of shots and inner steps: mean and 95 % interval over fresh tasks.

    **Arguments:** `queries` as many as in training for images, 10 for curves; `ways` as in training; `split`:
    the classes that tasks are made of; what is chosen by looking is chosen on `validation`. Images are judged
    twice where the normalization takes statistics of a set: transductive, by those of the query, and by those of the
    support, and `say` is told of each. A learner without inner steps is judged once. `changes` to the experiment make
    other tasks than those it was trained on: `{"amplitude": (5.0, 10.0)}`. `on="support"` judges what was learned on
    what it was learned from. `norms` leaves out some of the statistics.
    """
    sizes: dict[str, Any] = {"shots": shots, "steps": steps, "n_tasks": n_tasks, "queries": queries, "ways": ways}
    return evaluate_places(model, {"": changes or {}}, **sizes, split=split, seed=seed, say=say, on=on, norms=norms)[""]


def evaluate_places(
    model: Model,
    places: Mapping[str, dict[str, Any]],
    *,
    shots: tuple[int, ...],
    steps: tuple[int, ...],
    n_tasks: int = 600,
    queries: int | None = None,
    ways: int | None = None,
    split: str = "test",
    seed: int = 0,
    say: Callable[[str], None] = lambda message: None,
    on: Literal["query", "support"] = "query",
    norms: tuple[str | None, ...] | None = None,
) -> dict[str, list[Row]]:
    """The rows of `evaluate_run` in several places: changes to the experiment, by name.

    A place differs in what its tasks are drawn from, not in how: one compiled program judges all of them.
    """
    check_numbers(shots, steps)
    _check_sizes(ways, queries)
    experiment, kinds = model.run.experiment, norms or model.built.problem.norms
    images, asked = experiment.has_images, ways or trained_ways(experiment)
    if experiment.has_table:
        raise FewstepError("The run's tasks are a table's, of which each is judged once. Use evaluate_table instead.")
    if split != "test" and not images:
        raise FewstepError(
            f"`split={split!r}` does not apply: {experiment.tasks} is drawn anew each time. Leave it out."
        )
    queries = queries or (experiment.queries if images else 10)
    steps = steps if model.built.steps else (0,)
    known = {name: problem(dataclasses.replace(experiment, **changes)) for name, changes in places.items()}
    rows: dict[str, list[Row]] = {name: [] for name in places}
    for turn, (norm, number) in enumerate(itertools.product(kinds, shots)):
        if images:
            say(f"Judging {turn + 1} of {len(kinds) * len(shots)}: {asked}-way {number}-shot, norm {norm}.")
        tasks = {name: made.tasks(number, queries, split, ways) for name, made in known.items()}
        sample = next(iter(tasks.values()))
        sample = _on_support(sample) if on == "support" else sample
        learner, score = model.built.make(asked, norm), model.built.problem.score
        judge = make_evaluate(learner, sample, score, steps=steps, n_tasks=n_tasks, seed=seed)
        kind = {"ways": asked, "queries": queries, "norm": norm, "transductive": norm == "transductive"}
        for name, here in tasks.items():
            values = _values(model, judge, here.data, (n_tasks, len(steps)))
            rows[name] += [
                {"split": split} | _row(model, number, count, values[:, :, i]) | (kind if images else {})
                for i, count in enumerate(steps)
            ]
    return rows


def _on_support(tasks: Tasks) -> Tasks:
    def sample(data: Any, key: jax.Array) -> Episode:
        support = tasks.sample(data, key).support
        return Episode(support, support)

    return Tasks(tasks.data, sample)


def _values(model: Model, judge: Callable[..., np.ndarray], data: Any, shape: tuple[int, int]) -> np.ndarray:
    """The scores of every whole seed on each task after each number of steps; of none, if none is whole."""
    return np.asarray([judge(meta, data) for meta in model.whole.values()] or [np.full(shape, np.nan)])


def _row(model: Model, shots: int, steps: int, values: np.ndarray) -> Row:
    """One row from each seed's scores on the same tasks; the interval is over tasks, each the mean of the seeds."""
    joined = summarize(shots, steps, values.mean(0))
    row: Row = {
        "shots": shots,
        "inner_steps": steps,
        "metric": model.built.problem.metric,
        "mean": joined.mean,
        "interval95": joined.interval95,
        "median": float(np.median(np.nan_to_num(values, nan=np.inf, posinf=np.inf))),
        "n_tasks": joined.n_tasks,
        "seeds": len(model.metas),
    }
    if len(values) > 1:
        with np.errstate(all="ignore"):  # as for the mean: a seed whose mean is not finite has no deviation
            row["seed_std"] = float(np.std(values.mean(1), ddof=1))
    if wild := int((~np.isfinite(values)).any(0).sum()):
        row["diverged_tasks"] = wild
    if lost := len(model.metas) - len(model.whole):
        row["diverged_seeds"] = lost
    return row


def adapt(
    model: Model,
    support: Batch,
    x: np.ndarray,
    *,
    steps: int | None = None,
    seed: int = 0,
    ways: int | None = None,
    norm: str | None = None,
) -> np.ndarray:
    """Adapts to a support set and predicts at `x`; the mean over the run's seeds.

    Images give probabilities of the classes 0 ... `ways` - 1. They are normalized by the statistics of the support,
    also after a transductive training, so that the answer for one image does not depend on what else is asked; `norm`
    says otherwise.
    """
    images = model.run.experiment.has_images
    norms = model.built.problem.norms
    learner = model.built.make(
        ways or trained_ways(model.run.experiment), norm or ("support" if "support" in norms else None)
    )
    count = model.inner_steps if steps is None else steps
    if not images:
        columns = model.built.problem.tasks(1, 1)
        _check_columns(jax.eval_shape(columns.sample, columns.data, jax.random.key(0)).query, support, x)

    @jax.jit
    def predict(meta: Meta) -> jax.Array:
        made = learner.predict(meta, learner.adapt(meta, jax.random.key(seed), support, count), x)
        return jax.nn.softmax(made) if images else made

    made = np.mean([np.asarray(predict(meta)) for meta in list(model.whole.values()) or model.metas], axis=0)
    if not np.isfinite(made).all():
        raise FewstepError(
            f"The adapted network predicts values that are not finite after {count} inner steps. Take fewer steps, or "
            "bring the support set to the scale the run was trained on."
        )
    return made


def _check_columns(trained: Batch, support: Batch, x: np.ndarray) -> None:
    for name, found, wanted in (
        ("The support's x", support.x.shape, trained.x.shape),
        ("The support's y", support.y.shape, trained.y.shape),
        ("The query's x", x.shape, trained.x.shape),
    ):
        if found[1:] != wanted[1:]:
            raise FewstepError(f"{name} has {_shape(found)} and the run was trained with {_shape(wanted)}.")


def _shape(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} columns" if len(shape) == 2 else f"rows of shape {shape[1:]}"


def _check_sizes(ways: int | None, queries: int | None) -> None:
    for name, value, least in (("ways", ways, 2), ("queries", queries, 1)):
        if value is not None and value < least:
            raise FewstepError(f"`{name}` is {value}. It must be at least {least}.")


def check_numbers(shots: tuple[int, ...], steps: tuple[int, ...]) -> None:
    """Raises unless these are numbers of shots and of inner steps."""
    if not shots or min(shots) < 1:
        raise FewstepError(f"`shots` is {shots}. Give numbers of 1 or more, such as 5 10 20.")
    if not steps or min(steps) < 0:
        raise FewstepError(f"`inner_steps` is {steps}. Give numbers of 0 or more, such as 1 5.")
