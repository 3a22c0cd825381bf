"""Strong and simple models to compare with: pooled, shifted, fine-tuned, from scratch, mixed effects, a learned prior.

Each is a `Learner`, evaluated on the same draws as ours. What they leave open (a penalty, a step size, a number of
steps) is chosen on the validation tasks.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.linalg import cho_solve, cholesky
from jaxtyping import Array, Key

from fewstep import learners, losses, rules
from fewstep._episode import Batch, Episode
from fewstep._learner import Adapted, Learner, gradient_learner
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.learners import FITTING
from fewstep.learners.forest import can_fit, fit_forest
from fewstep.learners.trees import BASE
from fewstep.networks.mlp import mlp
from fewstep.problems._base import sample_of
from fewstep.problems._held_out import Answers, TaskScore, answer_tasks, draws_of, score_answers
from fewstep.tables import Rows, Table, large_enough, whole_tasks
from fewstep.training import train

POOLED, OFFSET, FINETUNED = "pooled", "pooled + offset", "pooled, fine-tuned"
POOLED_TREES = "pooled trees"
RIDGE, PROCESS = "ridge, each task alone", "Gaussian process, each task alone"
MIXED, PRIOR = "linear mixed effects", "Gaussian process, learned prior"
BASELINES = (POOLED, OFFSET, FINETUNED, RIDGE, PROCESS, MIXED, PRIOR)
_ALL = (POOLED, POOLED_TREES, *BASELINES[1:])
OF_CLASSES = (POOLED, POOLED_TREES, FINETUNED, RIDGE)
OF_POOLED = (POOLED, POOLED_TREES) if can_fit() else (POOLED,)
_PENALTIES = tuple(10.0**power for power in range(-3, 3))
_RATES, _STEPS = (0.003, 0.01, 0.03, 0.1), (0, 1, 5, 20, 50)
_TRAIN_STEPS = FITTING.steps
_HIDDEN = (64, 64)


class Baseline(NamedTuple):
    """A learner with its meta-parameters, and the inner steps it takes."""

    learner: Learner
    meta: Meta
    steps: int = 0


class Compared(NamedTuple):
    """The score of one model after learning from so many rows; `answers` are its predictions on the test tasks."""

    name: str
    shots: int
    score: TaskScore
    answers: Answers


def compare(
    of: Table,
    shots: Sequence[int],
    *,
    seed: int = 0,
    hidden: tuple[int, ...] = _HIDDEN,
    say: Callable[[str], None] = lambda message: None,
    names: Sequence[str] = _ALL,
) -> list[Compared]:
    """Fits every baseline to the training tasks of a table, and evaluates it on its test tasks."""
    classes = bool(of.schema.classes)
    single = len(of.schema.targets) == 1
    scale = of.schema.target.scale if single else 1.0
    names = [name for name in names if (not classes or name in OF_CLASSES) and (single or name not in (MIXED, PRIOR))]
    names = [name for name in names if name != POOLED_TREES or name in OF_POOLED]
    rows = []
    all_fitted, within = fitted(of, seed, hidden), max(shots)
    test = large_enough(of.parts["test"], within, "test")
    for name in names:
        say(f"Baseline: {name}.")
        for number in shots:
            baseline = all_fitted.get(name, number, within)
            answers = answer(of, baseline, test, number, within, seed)
            (score,) = score_answers(answers.mean, answers, scale=scale, classes=classes)
            rows.append(Compared(name, number, score, answers))
    return rows


def answer(
    of: Table, baseline: Baseline, rows: Rows, shots: int, within: int, seed: int, steps: tuple[int, ...] | None = None
) -> Answers:
    """The answers of a baseline on the same draws as those of a run, after its number of steps or several."""
    return answer_tasks(
        baseline.learner, [baseline.meta], rows, shots=shots, steps=steps or (baseline.steps,), draws=draws_of(rows),
        classes=bool(of.schema.classes), seed=seed, within=within,
    )  # fmt: skip


_kept: dict[tuple[str, int], "_Fitted"] = {}  # the last table's


def fitted(of: Table, seed: int, hidden: tuple[int, ...] = _HIDDEN) -> "_Fitted":
    """The baselines of a table, kept while no other table is asked for: `eval` wants the pooled one twice."""
    digest = hashlib.blake2b(repr((of.digest, of.split, of.schema, hidden)).encode()).hexdigest()
    if (digest, seed) not in _kept or not of.digest:
        _kept.clear()
        _kept[digest, seed] = _Fitted(of, hidden, seed)
    return _kept[digest, seed]


class _Fitted:
    """The baselines of one table; what several share is trained once."""

    def __init__(self, of: Table, hidden: tuple[int, ...], seed: int):
        self.of, self.hidden, self.seed = of, hidden, seed
        self.inputs, self.outputs = of.schema.widths
        self._metas: dict[str, Meta] = {}
        loss = losses.cross_entropy if of.schema.classes else losses.squared_error
        net = self._network()
        self.pooled = gradient_learner(net, rules.maml(0.0), loss, steps=0)
        # The step size is a meta-parameter here, so that all that are tried share one program.
        self.tuned = gradient_learner(net, rules.meta_sgd(1.0), loss, steps=0)
        self.shifted, self.alone = shifted(net), alone()
        self.mixed, self.prior = learners.mixed(self.inputs), learners.gaussian(net, self.inputs)
        features = learners.nothing_but_x(self.inputs)
        self.scratch = learners.ridge(features, self.inputs, self.outputs, classes=bool(of.schema.classes))

    def get(self, name: str, shots: int, within: int) -> Baseline:
        """One baseline, its choices made for so many shots, the first of `within` rows set apart."""
        make: dict[str, Callable[[int, int], Baseline]] = {
            POOLED: lambda shots, within: Baseline(self.pooled, self._trained(POOLED, self.pooled)),
            POOLED_TREES: lambda shots, within: self._trees,
            OFFSET: lambda shots, within: Baseline(self.shifted, self._trained(POOLED, self.pooled)),
            FINETUNED: self._finetuned,
            RIDGE: self._ridge,
            PROCESS: lambda shots, within: Baseline(self.alone, {}),
            MIXED: lambda shots, within: self._process(MIXED, self.mixed),
            PRIOR: lambda shots, within: self._process(PRIOR, self.prior),
        }
        return make[name](shots, within)

    def _network(self) -> Network:
        return mlp(self.inputs, self.outputs, hidden=self.hidden, std=None)

    def _trained(self, name: str, learner: Learner, rate: float = 1e-3) -> Meta:
        if name not in self._metas:
            rows = self.of.parts["train"]
            some = whole_tasks(rows, FITTING.rows)
            steps = optax.chain(
                optax.clip_by_global_norm(10.0), optax.adam(optax.cosine_decay_schedule(rate, _TRAIN_STEPS))
            )
            self._metas[name] = train(
                learner, some, steps=_TRAIN_STEPS, meta_batch=FITTING.meta_batch, optimizer=steps, seed=self.seed
            ).meta
        return self._metas[name]

    @cached_property
    def _trees(self) -> Baseline:
        """Boosted trees of all training rows, as many as are best on the validation tasks."""
        classes = bool(self.of.schema.classes)
        train, validation = (sample_of(self.of.parts[part]) for part in ("train", "validation"))
        forest, _ = fit_forest(train, validation, outputs=self.outputs, classes=classes, seed=self.seed, size=BASE)
        loss = losses.cross_entropy if classes else losses.squared_error
        learner = learners.pooled(self.outputs, loss, classes=classes)
        return Baseline(learner, {"base": jax.tree.map(jnp.asarray, forest)})

    def _process(self, name: str, learner: Learner) -> Baseline:
        return Baseline(learner, self._trained(name, learner, rate=FITTING.rate))

    def _finetuned(self, shots: int, within: int) -> Baseline:
        meta = self._trained(POOLED, self.pooled)
        like = self.tuned.init(jax.random.key(0))["rates"]
        at = lambda rate: meta | {"rates": jax.tree.map(lambda leaf: jnp.full_like(leaf, rate), like)}
        return self._best([Baseline(self.tuned, at(rate)) for rate in _RATES], shots, within, _STEPS)

    def _ridge(self, shots: int, within: int) -> Baseline:
        start = self.scratch.init(jax.random.key(0))
        meta = lambda penalty: start | {"ridge": start["ridge"] | {"log_penalty": jnp.log(penalty)}}
        return self._best([Baseline(self.scratch, meta(penalty)) for penalty in _PENALTIES], shots, within, (0,))

    def _best(self, tried: list[Baseline], shots: int, within: int, steps: tuple[int, ...]) -> Baseline:
        """The one that is best on the validation tasks, after the number of steps that is best for it."""
        rows, classes = self.of.parts["validation"], bool(self.of.schema.classes)
        within = min(within, int(rows.counts.min()) - 1)
        shots, scores = min(shots, within), []
        for baseline in tried:
            answers = answer(self.of, baseline, rows, shots, within, self.seed + 1, steps)
            for count, score in zip(steps, score_answers(answers.mean, answers, classes=classes), strict=True):
                value = (-score.mean if classes else score.mean) if np.isfinite(score.mean) else np.inf
                scores.append((value, baseline._replace(steps=count)))
        return min(scores, key=lambda pair: pair[0])[1]


def shifted(network: Network) -> Learner:
    """A network that is shifted by the mean of what it leaves over on the support."""
    plain = gradient_learner(network, rules.maml(0.0), losses.squared_error, steps=0)

    def adapt(
        meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...], **options: object
    ) -> Adapted:
        residual = support.y - plain.predict(meta, Adapted({}, ()), support.x, support.weight)
        total = jnp.maximum(support.weight.sum(), 1e-12)
        once = Adapted({"shift": (support.weight[:, None] * residual).sum(0) / total}, ())
        return once if isinstance(steps, int) else jax.tree.map(lambda leaf: jnp.stack([leaf] * len(steps)), once)

    def predict(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        return plain.predict(meta, Adapted({}, ()), x, weight) + adapted.fast["shift"][None]

    return plain._replace(adapt=adapt, predict=predict)


def alone() -> Learner:
    """A Gaussian process for each task from nothing: lengths and noise maximize the likelihood of its own rows."""
    lengths, noises = jnp.asarray([0.1, 0.3, 1.0, 3.0]), jnp.asarray([1e-3, 1e-2, 1e-1])
    grid = jnp.stack([a.ravel() for a in jnp.meshgrid(lengths, noises, indexing="ij")], axis=1)

    def kernel(a: Array, b: Array, length: Array) -> Array:
        return 1.0 + jnp.exp(-jnp.sum(jnp.square(a[:, None] - b[None]), axis=-1) / (2 * length**2))

    def adapt(
        meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...], **options: object
    ) -> Adapted:
        there = (support.weight > 0).astype(support.x.dtype)

        def fitted(setting: Array) -> tuple[Array, Array]:
            both = there[:, None] * there[None]
            matrix = both * kernel(support.x, support.x, setting[0]) + jnp.diag(there * setting[1] + (1 - there))
            root, y = cholesky(matrix, lower=True), there[:, None] * support.y
            alpha = there[:, None] * cho_solve((root, True), y)
            return -jnp.sum(y * alpha) / 2 - jnp.sum(jnp.log(jnp.diag(root))), alpha

        likelihoods, alphas = jax.vmap(fitted)(grid)
        best = jnp.argmax(likelihoods)
        once = Adapted({"x": support.x, "alpha": alphas[best], "length": grid[best, 0]}, ())
        return once if isinstance(steps, int) else jax.tree.map(lambda leaf: jnp.stack([leaf] * len(steps)), once)

    def predict(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        return kernel(jnp.asarray(x), adapted.fast["x"], adapted.fast["length"]) @ adapted.fast["alpha"]

    def loss(meta: Meta, key: Key[Array, ""], episode: Episode, *, first_order: bool = False) -> Array:
        return losses.squared_error(predict(meta, adapt(meta, key, episode.support, 0), episode.query.x), episode.query)

    return Learner(lambda key: {}, loss, adapt, predict)
