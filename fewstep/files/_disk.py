"""What the disk may refuse, said clearly; and folders that one process holds at a time."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from fewstep._errors import FewstepError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a disk that refuses into a `FewstepError`."""
    try:
        yield
    except OSError as error:
        raise FewstepError(
            f"Cannot write {path}: {error.strerror or error}. Make room, or choose a folder that can be written."
        ) from error


def empty(folder: Path) -> None:
    """Removes all that a folder holds, but for the lock."""
    with writing(folder):
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != LOCK:
                entry.unlink()


@contextlib.contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """Holds a folder for one process, which the system lets go of however it ends; another is told it is `busy`."""
    with writing(folder):
        file = (folder / LOCK).open("w")
    with file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FewstepError(busy) from None
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process holds a folder now."""
    try:
        file = (folder / LOCK).open()
    except OSError:
        return False
    with file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
