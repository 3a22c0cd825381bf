"""Cached files that nobody uses any more."""

import contextlib
import os
import time
from pathlib import Path

_DAYS = 30.0


def mark_used(path: Path) -> None:
    """Notes that a cached file was used today: `forget_old` goes by this."""
    with contextlib.suppress(OSError):
        os.utime(path)


def forget_old(folder: Path, pattern: str = "*.n*") -> None:
    """Removes what nobody has used for a month: finished files, and those of a process that ended while it wrote."""
    limit = time.time() - _DAYS * 86_400
    with contextlib.suppress(OSError):
        for path in folder.glob(pattern):
            if path.stat().st_mtime < limit:
                path.unlink(missing_ok=True)
