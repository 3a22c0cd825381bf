"""Trains a run: resumes what is there, logs, saves, survives Ctrl-C and a kill."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from fewstep.experiments import Built
from fewstep.files import locked
from fewstep.machine import distributed
from fewstep.machine.devices import Layout
from fewstep.machine.layout import choose, lay_out, make_mesh
from fewstep.problems import Value
from fewstep.runs import checkpoint
from fewstep.runs.create import begun_layout
from fewstep.runs.fit import fit_run
from fewstep.runs.log import Line, to_lines
from fewstep.runs.outcome import Outcome, Progress, silent
from fewstep.runs.pick import pick_run
from fewstep.runs.resume import begin, check_unchanged
from fewstep.runs.run import Run
from fewstep.runs.signals import stop_signals
from fewstep.training import NotFinite, Row, TrainState

SAVE_SECONDS = 15.0


def train_run(
    run: Run, progress: Progress | None = None, *, save_seconds: float = SAVE_SECONDS, built: Built | None = None,
    until: int | None = None,
) -> Outcome:  # fmt: skip
    """Trains a run to its number of steps, or `until` an earlier one, from its newest whole checkpoint if there is one.

    The last and the best parameters are saved about every `save_seconds`, at the end, and on Ctrl-C. Whether and where
    training was interrupted does not change a bit of the outcome. `built` is what the run's experiment builds, if that
    is at hand.
    """
    progress = progress if progress and distributed.first() else silent()
    with locked(run.path, run.busy) if distributed.first() else nullcontext():
        if distributed.first():
            check_unchanged(run)
        if run.experiment.picks:
            return pick_run(run, progress, train_run, save_seconds)
        places = _lay_out(run, progress)
        mesh = make_mesh(places.devices)
        built = built or run.build()
        state, log = begin(run, built, progress.say)
        if distributed.first():
            run.write_config()  # last: whatever is wrong has been said by now
        if mesh is not None and run.experiment.has("meta_batch") and mesh.size > run.experiment.meta_batch:
            idle = mesh.size - run.experiment.meta_batch
            progress.say(f"{idle} of {mesh.size} devices have no task: raise `meta_batch`, or use fewer devices.")
        if built.method.fit is not None:
            return fit_run(run, built, state, progress, train_run, save_seconds)
        last = run.experiment.steps if until is None else min(until, run.experiment.steps)
        return _train(run, built, state, log, progress, save_seconds, steps=last, mesh=mesh, chunk=places.chunk)


def _lay_out(run: Run, progress: Progress) -> Layout:
    """The layout that the run was begun with, or one that fits its tasks, on the devices there are."""
    if distributed.several():
        return lay_out(run.experiment)
    wanted = begun_layout(run) or choose(run.experiment)
    places = lay_out(run.experiment, wanted)
    if places.devices < wanted.devices:
        progress.say(
            f"Training on {places.devices} of {wanted.devices} devices: JAX had started before they could be made. "
            "A new process uses them all."
        )
    return places


def _train(
    run: Run,
    built: Built,
    state: TrainState,
    log: list[Line],
    progress: Progress,
    save_seconds: float,
    *,
    steps: int,
    **places: Value,
) -> Outcome:
    first = int(state.step)
    saved: tuple[float, int] = (time.monotonic(), first)
    lost: set[int] = set()
    ended = False  # by a signal, to this process or to another
    progress.begin(first, steps)
    with stop_signals() as stopped, _boards(run, first) as board:

        def after(state: TrainState, rows: list[Row]) -> bool:
            nonlocal saved, ended
            lines = to_lines(rows, run.seeds)
            log.extend(lines)
            if distributed.first():
                run.append(lines)
            for row in rows:
                board(row)
                for seed in _lost(run, row) - lost:
                    progress.say(f"The loss of seed {seed} is not finite at step {row.step}. The other seeds go on.")
                    lost.add(seed)
            progress.step(int(state.step), rows[-1] if rows else None)
            stop = distributed.request_stop(bool(stopped))
            ended, save = distributed.agree((stop, stop or time.monotonic() - saved[0] > save_seconds))
            if save:
                run.save(state, log)
                saved = (time.monotonic(), int(state.step))
            return ended

        try:
            trained = built.train(state=state, steps=steps, on_segment=after, agree=distributed.agree, **places)
        except NotFinite as error:
            raise NotFinite(error.step, error.reason, _last_good(run)) from None
    if distributed.agree(int(trained.state.step) != saved[1] or not checkpoint.checkpoint_steps(run.checkpoints)):
        run.save(trained.state, log)
    step, signalled = int(trained.state.step), distributed.agree(ended or bool(stopped))
    return Outcome(trained.state, step, signalled and step < steps, signalled)


def _lost(run: Run, row: Row) -> set[int]:
    return {seed for seed, loss in zip(run.seeds, row.loss, strict=True) if not math.isfinite(loss)}


def _last_good(run: Run) -> str:
    steps = checkpoint.checkpoint_steps(run.checkpoints)
    if not steps:
        return "No checkpoint had been written yet."
    return f"The last good checkpoint is that of step {steps[-1]} in {run.checkpoints}; nothing of it is lost."


@contextmanager
def _boards(run: Run, step: int) -> Iterator[Callable[[Row], None]]:
    """Writes rows as TensorBoard files, one curve per seed."""
    if not distributed.first():
        yield lambda row: None
        return
    from tensorboardX import SummaryWriter

    writers = {
        seed: SummaryWriter(str(run.path / "tensorboard" / f"seed_{seed}"), purge_step=step or None)
        for seed in run.seeds
    }

    def write(row: Row) -> None:
        for number, writer in enumerate(writers.values()):
            writer.add_scalar("loss", row.loss[number], row.step)
            writer.add_scalar("gradient_norm", row.gradient_norm[number], row.step)
            if row.validation is not None:
                writer.add_scalar("validation", row.validation[number], row.step)

    try:
        yield write
    finally:
        for writer in writers.values():
            writer.close()
