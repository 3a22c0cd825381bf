"""One process of `scaling.py`: times meta-steps and all-reduces, and prints them as JSON if it is process 0."""

import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec

import fewstep
from fewstep import data, losses, networks, rules, tasks
from fewstep.compute import everywhere
from fewstep.machine import distributed
from fewstep.machine.layout import make_mesh
from fewstep.training import first_state, make_segment


def sine() -> tuple[fewstep.Learner, fewstep.Tasks, int | None]:
    """The sine net of 40-40 under MT-net, all tasks of a device together."""
    return fewstep.gradient_learner(networks.mlp(), rules.mtnet(0.01), losses.squared_error), tasks.sinusoid(), None


def conv4() -> tuple[fewstep.Learner, fewstep.Tasks, int | None]:
    """conv4 of 64 filters under MT-net, 5-way 1-shot, a task at a time; noise has the speed of characters."""
    noise = np.random.default_rng(0)
    classes = {str(n): noise.integers(0, 255, (4, 28, 28, 1), np.uint8) for n in range(50)}
    learner = fewstep.gradient_learner(networks.conv4(), rules.mtnet(0.4), losses.cross_entropy)
    return learner, tasks.images(data.make_set(classes), shots=1, queries=1, ways=5), 1


SIZES = {"sine": sine, "conv4": conv4}


def timed(run: Callable[[], Any], repeats: int) -> list[float]:
    """The seconds of each of several calls, after one that compiles."""
    run()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return seconds


def step_seconds(size: str, batch: int, mesh: Mesh | None, steps: int, repeats: int) -> list[float]:
    """The seconds of a meta-step with so many tasks in all: lowest, median and highest."""
    learner, of, chunk = SIZES[size]()
    optimizer = optax.adam(1e-3)
    segment = make_segment(learner, of, optimizer, meta_batch=batch, mesh=mesh, chunk=chunk)
    state, arrays = everywhere((first_state(learner, optimizer, [0]), of.data), mesh)

    def run() -> None:
        nonlocal state
        state, _ = jax.block_until_ready(segment(state, arrays, steps))

    found = timed(run, repeats)
    return [min(found) / steps, median(found) / steps, max(found) / steps]


def gradient_bytes(size: str) -> int:
    """The bytes that an all-reduce of a step carries: the gradient and the loss."""
    learner = SIZES[size]()[0]
    return 4 + sum(leaf.nbytes for leaf in jax.tree.leaves(learner.init(jax.random.key(0))))


def reduce_seconds(size: int, mesh: Mesh, times: int, repeats: int) -> float:
    """The median seconds of an all-reduce of so many bytes."""
    whole = PartitionSpec()
    add = lambda x: jax.lax.fori_loop(0, times, lambda _, x: jax.lax.psum(x, "tasks") / mesh.size, x)
    many = jax.jit(jax.shard_map(add, mesh=mesh, in_specs=whole, out_specs=whole, check_vma=False))
    array = everywhere(jnp.ones(max(1, size // 4), jnp.float32), mesh)
    return median(timed(lambda: jax.block_until_ready(many(array)), repeats)) / times


def main(asked: dict[str, Any]) -> None:
    jax.config.update("jax_num_cpu_devices", asked["devices"])
    if asked["devices"] == 1:  # a device is a core: alone as beside others
        os.sched_setaffinity(0, [asked["process"] % (os.cpu_count() or 1)])
    if asked["processes"] > 1:
        jax.distributed.initialize(
            asked["coordinator"], asked["processes"], asked["process"], cluster_detection_method="deactivate"
        )
    mesh, found = make_mesh(asked["devices"]), []
    for size, batch, steps in asked["steps"]:
        seconds = step_seconds(size, batch, mesh, steps, asked["repeats"])
        found.append({"size": size, "tasks": batch, "seconds": seconds[1], "spread": [seconds[0], seconds[2]]})
    reduces = []
    if mesh is not None:
        for size in asked["reduces"]:
            reduces.append({"bytes": size, "seconds": reduce_seconds(size, mesh, 50, asked["repeats"])})
    if distributed.first():
        sizes = {size: gradient_bytes(size) for size in SIZES}
        print("RESULT " + json.dumps({"steps": found, "reduces": reduces, "bytes": sizes}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
