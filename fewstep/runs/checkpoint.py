"""Checkpoints that can be trusted: written whole or not at all, with a checksum of every file.

Orbax writes the arrays. It restores a file with a flipped bit without complaint, so the checksums are ours. A
checkpoint appears under its name only after everything in it has been written. Several processes write one together,
and each reads all of it, so that any number of them can go on from it.
"""

import errno
import hashlib
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from fewstep._errors import FewstepError
from fewstep.machine import distributed

KEPT = 2
_SUMS, _SHAPES = "checksums.json", "shapes.json"
_PARTIAL = ".partial-"
_MARGIN = 1_000_000  # bytes of lists, checksums and other small files, generously


class Damaged(FewstepError):
    """A checkpoint whose files are not what was written."""


def save(folder: Path, step: int, state: PyTree, texts: dict[str, str]) -> Path:
    """Writes a checkpoint, with `texts` as files by their names beside the arrays, and removes all but the newest ones.
    Raises `FewstepError` when the disk refuses."""
    partial, target = folder / f"{_PARTIAL}{step:09d}", folder / f"{step:09d}"
    try:
        _begin(folder, partial, state)
        _write(partial, state)
        if distributed.first():
            for name, text in (texts | {_SHAPES: json.dumps(_shapes(state), indent=1)}).items():
                (partial / name).write_text(text, encoding="utf-8", newline="")
            _finish(folder, partial, target)
        distributed.agree(True)
    except Exception as error:  # Orbax reports a full disk by exceptions of several libraries
        if distributed.lost(error):
            raise
        shutil.rmtree(partial, ignore_errors=True)
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0][:200]
        reason = os.strerror(errno.ENOSPC) if os.strerror(errno.ENOSPC) in str(error) else reason
        raise FewstepError(
            f"Cannot write the checkpoint of step {step} to {folder}: {reason}. Earlier checkpoints are untouched; "
            "make room, or make the folder writable, and run the same command again to go on from the last one."
        ) from error
    return target


def _begin(folder: Path, partial: Path, state: PyTree) -> None:
    """Makes an empty place to write to; what process 0 finds wrong, all raise."""
    problem = None
    if distributed.first():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _check_room(folder, state)
            for stray in folder.glob(_PARTIAL + "*"):
                shutil.rmtree(stray)
            partial.mkdir()
        except OSError as error:
            problem = error.strerror or str(error)
    if problem := distributed.agree(problem):
        raise OSError(problem)


def _finish(folder: Path, partial: Path, target: Path) -> None:
    (partial / _SUMS).write_text(json.dumps(dict(_sums(partial)), indent=1))
    if target.exists():
        shutil.rmtree(target)
    partial.rename(target)
    for old in checkpoint_steps(folder)[:-KEPT]:
        shutil.rmtree(folder / f"{old:09d}")


def _check_room(folder: Path, state: PyTree) -> None:
    """Refuses before writing begins: Orbax's threads are loud about a disk that fills up under them."""
    needed = 3 * sum(leaf.nbytes for leaf in jax.tree.leaves(state)) + _MARGIN
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def checkpoint_steps(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder, oldest first; half-written ones do not count."""
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit() and path.is_dir())


def restore(path: Path, like: PyTree, check: Callable[[Path], None] = lambda path: None) -> PyTree:
    """Reads a checkpoint of the structure and shapes of `like`. Raises `Damaged` if its files have changed, and what
    `check` raises, which may look at the texts it was saved with."""
    verify(path)
    check(path)
    _check_shapes(path, like)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), like)
    try:
        with _quiet(), _reader() as checkpointer:
            return checkpointer.restore((path / "state").absolute(), shapes)
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path} does not hold what its configuration says: {str(error).splitlines()[0][:200]}") from None


def newest(
    folder: Path, like: PyTree, check: Callable[[Path], None] = lambda path: None
) -> tuple[PyTree | None, list[str]]:
    """The state of the newest checkpoint that is whole, and a message for each one passed over."""
    messages: list[str] = []
    for step in reversed(checkpoint_steps(folder)):
        try:
            return restore(folder / f"{step:09d}", like, check), messages
        except Damaged as damage:
            messages.append(str(damage) + " Using the one before it." * (step != checkpoint_steps(folder)[0]))
    return None, messages


def _shapes(state: PyTree) -> dict[str, list[int]]:
    return {jax.tree_util.keystr(path): list(leaf.shape) for path, leaf in jax.tree_util.tree_leaves_with_path(state)}


def _check_shapes(path: Path, like: PyTree) -> None:
    """Raises where the arrays are not those that the experiment has now; Orbax would, at length."""
    if not (path / _SHAPES).is_file():  # written by an earlier version
        return
    there, here = json.loads((path / _SHAPES).read_text()), _shapes(like)
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            raise FewstepError(
                f"{path} holds other arrays than the run's network has now: {name} is of shape {there.get(name)} there "
                f"and {here.get(name)} here. Has the file of `network` changed? Bring it back as it was."
            )


def read_text(path: Path, name: str) -> str | None:
    """A text that a checkpoint was saved with; nothing if an earlier version, which had none, wrote it."""
    file = path / name
    return file.read_bytes().decode() if file.is_file() else None


def verify(path: Path) -> None:
    """Raises `Damaged`, naming the file, unless every file has the checksum it was written with."""
    try:
        expected = json.loads((path / _SUMS).read_text())
    except (OSError, ValueError):
        raise Damaged(f"Checkpoint {path} is damaged: its list of checksums is missing or unreadable.") from None
    sums = dict(_sums(path))
    for name in sorted(expected.keys() | sums.keys()):
        if expected.get(name) != sums.get(name):
            what = "is missing" if name not in sums else "was added" if name not in expected else "has changed"
            raise Damaged(f"Checkpoint {path} is damaged: {name} {what} since it was written.")


def _write(partial: Path, state: PyTree) -> None:
    with _quiet(), ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save((partial / "state").absolute(), state)
        checkpointer.wait_until_finished()


def _reader() -> ocp.StandardCheckpointer:
    """Reads without waiting for other processes: each reads for itself, and one may read when the others have left."""
    if jax.process_count() == 1:
        return ocp.StandardCheckpointer()
    own = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=own, active_processes={own}, barrier_sync_key_prefix=str(own)
    )
    return ocp.StandardCheckpointer(multiprocessing_options=alone)


def _sums(path: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name != _SUMS:
            yield file.relative_to(path).as_posix(), hashlib.sha256(file.read_bytes()).hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps Orbax's log and its threads' tracebacks off a user's terminal; what failed is raised to us as well."""
    logger, level, hook = logging.getLogger("absl"), logging.getLogger("absl").level, threading.excepthook
    logger.setLevel(logging.CRITICAL + 1)
    threading.excepthook = lambda failed: None
    try:
        yield
    finally:
        logger.setLevel(level)
        threading.excepthook = hook
