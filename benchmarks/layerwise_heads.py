"""Closed-form heads on meta-learned features, against prototypes and MT-net: accuracy and the time to learn a task.

python benchmarks/layerwise_heads.py PROTOTYPES_RUN --mtnet omniglot-mtnet-5way --data-dir FOLDER

The first is a run of prototypes; its features are used by all three heads as they are. MT-net is a run or the name of a
model that comes with the package. Tasks are made of characters that are test characters to both, so that no features
have seen them. The result goes to benchmarks/results/layerwise-heads.json.
"""

import dataclasses
import json
import time
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from fewstep import Tasks, data, evaluate, learners, losses
from fewstep._learner import Learner
from fewstep.learners.kernel_heads import START
from fewstep.models import Model
from fewstep.runs import load
from fewstep.tasks import images
from fewstep_studies.reproduce import made_with

OUT = Path(__file__).parent / "results" / "layerwise-heads.json"
HEADS = ("prototypes", "embedding", "spectral")


@dataclasses.dataclass(frozen=True)
class Options:
    """What is judged."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PROTOTYPES_RUN")]
    """A run of prototypes."""
    mtnet: str = "omniglot-mtnet-5way"
    """A run of MT-net, or a model's name."""
    data_dir: Path | None = None
    """Folder with omniglot."""
    ways: int = 5
    """Classes of a task."""
    shots: tuple[int, ...] = (1, 5, 10)
    """Examples a class."""
    n_tasks: int = 600
    """Test tasks."""
    inner_steps: int = 5
    """MT-net's steps."""


def main(options: Options) -> None:
    """Judges all, writes and prints the result."""
    data.look_in(options.data_dir)
    protos, mtnet = load(options.run), load(options.mtnet)
    unseen, rows = _unseen(protos, mtnet), []
    print(f"{len(unseen.names)} characters that neither was trained or validated on", flush=True)
    for norm in ("transductive", "support"):
        for shots in options.shots:
            tasks = images(unseen, shots, 5, ways=options.ways, rotate="episode", invert=True)
            network = protos.problem.network(None, norm)
            meta = {**protos.meta(), "bandwidth": jnp.log(START)}
            for name in HEADS:
                learner = getattr(learners, name)(network, options.ways)
                rows.append(_judged(name, tasks, learner, meta, shots, norm, 0, options))
            learner = mtnet.learner(options.ways, norm)
            rows.append(_judged("mtnet", tasks, learner, mtnet.meta(), shots, norm, options.inner_steps, options))
            print(*(json.dumps(row) for row in rows[-4:]), sep="\n", flush=True)
    OUT.write_text(
        json.dumps(
            {
                "ways": options.ways,
                "n_tasks": options.n_tasks,
                "characters": len(unseen.names),
                "rows": rows,
                **made_with(),
            },
            indent=1,
        )
        + "\n"
    )


def _unseen(*models: Model) -> data.ImageSet:
    """The characters that are for the test in the split of every model."""
    sets = [data.load("omniglot", "test", size=28, partition=model.experiment.split) for model in models]
    shared = set.intersection(*(set(each.names) for each in sets))
    return sets[0].only(tuple(sorted(shared)))


def _judged(
    name: str, tasks: Tasks, learner: Learner, meta: Any, shots: int, norm: str, steps: int, options: Options
) -> dict[str, Any]:
    score = evaluate(learner, meta, tasks, losses.accuracy, steps=(steps,), n_tasks=options.n_tasks)[0]
    support, _ = tasks.sample(tasks.data, jax.random.key(0))
    adapt = jax.jit(lambda meta, support: learner.adapt(meta, jax.random.key(0), support, steps))
    jax.block_until_ready(adapt(meta, support))
    seconds = []
    for _ in range(30):
        begin = time.perf_counter()
        jax.block_until_ready(adapt(meta, support))
        seconds.append(time.perf_counter() - begin)
    return {
        "head": name, "shots": shots, "norm": norm, "accuracy": score.mean, "interval95": score.interval95,
        "milliseconds": 1e3 * float(np.median(seconds)),
    }  # fmt: skip


if __name__ == "__main__":
    main(tyro.cli(Options))
