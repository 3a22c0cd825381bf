"""What each outer gradient costs, and how far it points from the exact one: docs/methods/outers.md.

python benchmarks/outer_gradients.py

On the sine network (1-40-40-1, He start, 10 points to learn from and 10 to be evaluated on) after a short training
by the exact gradient, for each outer gradient on the same meta-batches:

- `memory_mb`: temporary memory of the compiled gradient of a meta-batch, as XLA reports it;
- `cpu_ms`: time of all cores for one such gradient, the median over the meta-batches; other work on the machine counts
  little in it;
- `cosine`: with the exact gradient of the same loss on the same meta-batch, mean and standard deviation over them.
  `implicit` is compared with `unrolled` for the same rule, whose steps are pulled to the start: of 0.01 with a pull of
  0.5, of 0.005 with a pull of 5, where 0.01 diverges.
"""

import dataclasses
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jaxtyping import PyTree

import fewstep
from fewstep import augmentations, losses, networks, outers, rules, tasks
from fewstep.files import read_json, write_json

OUT = Path(__file__).parent / "results" / "outer-gradients.json"


@dataclasses.dataclass(frozen=True)
class Options:
    """Measurements of each outer gradient."""

    batches: int = 20
    """Meta-batches."""
    meta_batch: int = 25
    """Tasks of each."""
    steps: int = 1000
    """Outer steps of the training before."""
    seed: int = 0
    """Seed of training and meta-batches."""
    only: tuple[str, ...] = ()
    """Some of the rows (default: all that the file lacks)."""
    out: Path = OUT
    """The file of the result."""


class Row(NamedTuple):
    """An outer gradient, a rule that it trains, its inner steps, and how strongly they are pulled to the start;
    the cosine may be of some meta-parameters only."""

    outer: fewstep.Outer
    rule: fewstep.Rule
    steps: int = 1
    pull: float = 0.0
    of: tuple[str, ...] = ()


def near_start(strength: float) -> Any:
    """The error, and a pull to the start."""

    def loss(meta: Any, prediction: Any, batch: Any, context: Any) -> Any:
        start = fewstep.flatten(meta["weights"])
        far = sum(jnp.sum((leaf - start[path]) ** 2) for path, leaf in context.fast.items())
        return losses.squared_error(prediction, batch) + strength * far

    return loss


ROWS: dict[str, Row] = {
    "unrolled": Row(fewstep.unrolled, rules.maml(0.01)),
    "first_order": Row(fewstep.first_order, rules.maml(0.01)),
    "reptile": Row(fewstep.reptile(1, 20), rules.maml(0.01)),
    "sharp outside, rho 0.05": Row(outers.sharp("outside", 0.05), rules.maml(0.01)),
    "sharp inside, rho 0.05": Row(outers.sharp("inside", 0.05), rules.maml(0.01)),
    "hardest of 4, shift 0.5": Row(outers.hardest(4, augmentations.label_shift(0.5)), rules.maml(0.01)),
    "evolution, 1 pair": Row(outers.evolution(pairs=1), rules.maml(0.01)),
    "evolution, 8 pairs": Row(outers.evolution(pairs=8), rules.maml(0.01)),
    "evolution, 40 pairs": Row(outers.evolution(pairs=40), rules.maml(0.01)),
    "evolution of 6 rates, 8 pairs": Row(
        outers.evolution(("rates",), 8, 0.001, whole=True), rules.meta_sgd(0.01), of=("rates",)
    ),
    "unrolled, 50 steps, pull 0.5": Row(fewstep.unrolled, rules.maml(0.01), 50, pull=0.5),
    "first_order, 50 steps, pull 0.5": Row(fewstep.first_order, rules.maml(0.01), 50, pull=0.5),
    "implicit cg, 50 steps, pull 0.5": Row(outers.implicit(50, "cg", 20), rules.maml(0.01), 50, pull=0.5),
    "implicit neumann, 50 steps, pull 0.5": Row(outers.implicit(50, "neumann", 50), rules.maml(0.01), 50, pull=0.5),
    "unrolled, 50 steps, pull 5": Row(fewstep.unrolled, rules.maml(0.005), 50, pull=5.0),
    "first_order, 50 steps, pull 5": Row(fewstep.first_order, rules.maml(0.005), 50, pull=5.0),
    "implicit cg, 50 steps, pull 5": Row(outers.implicit(50, "cg", 20), rules.maml(0.005), 50, pull=5.0),
    "implicit neumann, 50 steps, pull 5": Row(outers.implicit(50, "neumann", 50), rules.maml(0.005), 50, pull=5.0),
    "straight-through (mask)": Row(fewstep.unrolled, rules.mnet(0.01), of=("mask",)),
    "reinforce, 2 draws (mask)": Row(outers.reinforce(2), rules.mnet(0.01), of=("mask",)),
    "reinforce, 8 draws (mask)": Row(outers.reinforce(8), rules.mnet(0.01), of=("mask",)),
    "reinforce, 32 draws (mask)": Row(outers.reinforce(32), rules.mnet(0.01), of=("mask",)),
}
REPEATS = 5  # of each gradient that is timed
MANY_DRAWS = 2000  # of masks, whose score function gradient stands for the exact one


def learner_of(row: Row) -> fewstep.Learner:
    """The learner of a row."""
    inner = near_start(row.pull) if row.pull else None
    network = networks.mlp(std=None)
    return fewstep.gradient_learner(network, row.rule, losses.squared_error, steps=row.steps, inner_loss=inner)


def exact_of(row: Row) -> fewstep.Outer:
    """What a row is compared with: the exact gradient, which for masks is estimated from very many draws."""
    return outers.reinforce(MANY_DRAWS) if row.of == ("mask",) else fewstep.unrolled


def drawn(options: Options, number: int) -> tuple[Any, fewstep.Episode, jax.Array]:
    """Keys, tasks and weights of a meta-batch."""
    waves, key = tasks.sinusoid(), jax.random.fold_in(jax.random.key(options.seed), number)
    keys = jax.random.split(key, options.meta_batch)
    episodes = jax.vmap(waves.sample, (None, 0))(waves.data, keys)
    return keys, episodes, jnp.full(options.meta_batch, 1 / options.meta_batch)


def cosine(a: PyTree, b: PyTree, of: tuple[str, ...]) -> float:
    """Between two gradients, or what they hold of some names; `rates` are compared array by array, by their means."""
    mean = lambda leaf: np.asarray(leaf).mean(keepdims=True) if of == ("rates",) else np.asarray(leaf)
    part = lambda tree: [tree[name] for name in of] if of else tree
    flat = lambda tree: np.concatenate([mean(leaf).ravel() for leaf in jax.tree.leaves(part(tree))])
    x, y = flat(a), flat(b)
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def measured(row: Row, options: Options, metas: Callable[[Row], Any]) -> dict[str, Any]:
    """The figures of one row."""
    learner, meta = learner_of(row), metas(row)
    batches = [drawn(options, number) for number in range(options.batches)]
    compiled = jax.jit(row.outer(learner)).lower(meta, *batches[0]).compile()
    exact = jax.jit(exact_of(row)(learner))
    seconds, cosines = [], []
    for batch in batches:
        begin = time.process_time()
        for _ in range(REPEATS):
            _, gradient = jax.block_until_ready(compiled(meta, *batch))
        seconds.append((time.process_time() - begin) / REPEATS)
        cosines.append(cosine(gradient, exact(meta, *batch)[1], row.of))
    memory = compiled.memory_analysis()
    return {
        "memory_mb": round(memory.temp_size_in_bytes / 1e6, 3) if memory else None,
        "cpu_ms": round(1000 * statistics.median(seconds), 3), "cosine": round(float(np.mean(cosines)), 3),
        "cosine_std": round(float(np.std(cosines)), 3),
    }  # fmt: skip


def main(options: Options) -> None:
    """Row after row; the result so far is written after each, and the same command goes on with those that lack."""
    from fewstep_studies.reproduce import made_with

    cache: dict[tuple[str, int, float], Any] = {}

    def metas(row: Row) -> Any:
        which = (row.rule.name, row.steps, row.pull)
        if which not in cache:
            train = fewstep.first_order if row.steps > 1 else fewstep.unrolled
            cache[which] = fewstep.train(
                learner_of(row), tasks.sinusoid(), steps=options.steps, meta_batch=options.meta_batch, outer=train,
                seed=options.seed, optimizer=optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3)),
            ).meta  # fmt: skip
        return cache[which]

    command = shlex.join(["python", "benchmarks/outer_gradients.py", *sys.argv[1:]])
    settings = {name: getattr(options, name) for name in ("batches", "meta_batch", "steps", "seed")}
    before = read_json(options.out) or {}
    rows = {row["outer"]: row for row in before.get("rows", ()) if before["settings"] == settings}
    for name in options.only or [name for name in ROWS if name not in rows]:
        rows[name] = {"outer": name, **measured(ROWS[name], options, metas)}
        print(json.dumps(rows[name]), file=sys.stderr, flush=True)
        ordered = [rows[name] for name in ROWS if name in rows]
        result = {"name": "outer-gradients", "command": command, "settings": settings, "rows": ordered}
        write_json(options.out, result | made_with())


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
