"""Compiled programs kept on disk, so that a second start does not compile them again."""

import hashlib
import os
import platform
from pathlib import Path

import jax

from fewstep.files import cache

_SECONDS = 0.5  # programs that compile faster are not worth a file
_MAX_BYTES = 1_000_000_000


def keep_compiled() -> Path | None:
    """Lets JAX keep what it compiles in fewstep's cache; the folder, or nothing if it cannot be written.

    A folder that the user chose for JAX, by JAX_COMPILATION_CACHE_DIR, stands; so does JAX_ENABLE_COMPILATION_CACHE=0.
    """
    if jax.config.jax_compilation_cache_dir or not jax.config.jax_enable_compilation_cache:  # type: ignore[attr-defined]
        return None
    folder = cache() / "compiled" / machine()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # what lies there is run: nobody else may write it
        if not os.access(folder, os.W_OK):
            return None
        _forget_oldest(folder)
    except OSError:
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _SECONDS)
    return folder


def machine() -> str:
    """The kind of machine in a few letters: a program for one with other instructions must not be run."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        kind = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        kind = platform.processor()
    return hashlib.sha256(f"{platform.machine()} {kind}".encode()).hexdigest()[:12]


def _forget_oldest(folder: Path, most: int = _MAX_BYTES) -> None:
    """Removes the oldest files until the rest are small enough together."""
    files = sorted((file.stat().st_mtime, file.stat().st_size, file) for file in folder.iterdir() if file.is_file())
    over = sum(size for _, size, _ in files) - most
    for _, size, file in files:
        if over <= 0:
            return
        file.unlink(missing_ok=True)
        over -= size
