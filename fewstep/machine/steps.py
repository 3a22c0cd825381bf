"""Steps of a training without its files: to measure how fast it goes."""

from collections.abc import Callable

import jax

from fewstep.compute import everywhere
from fewstep.experiments import Built, Experiment, build
from fewstep.machine.layout import lay_out, make_mesh
from fewstep.training import TrainState, first_state, make_segment


def make_steps(experiment: Experiment) -> tuple[Built, Callable[[int], TrainState]]:
    """What is built of an experiment, and a function that takes so many steps, waits for them and gives the state.

    They are laid out on the devices as `train_run` does. The first call compiles.
    """
    places = lay_out(experiment)
    mesh = make_mesh(places.devices)
    built = build(experiment)
    tasks, seeds = built.training, experiment.seed_list
    segment = make_segment(
        built.learner, tasks, built.optimizer, meta_batch=experiment.meta_batch, outer=built.outer, mesh=mesh,
        chunk=places.chunk,
    )  # fmt: skip
    arrays = everywhere(tasks.data, mesh)
    state = everywhere(first_state(built.learner, built.optimizer, seeds), mesh)

    def run(steps: int) -> TrainState:
        nonlocal state
        state, _ = jax.block_until_ready(segment(state, arrays, steps))
        return state

    return built, run
