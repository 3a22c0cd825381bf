"""Which source a result was made with."""

import subprocess
from pathlib import Path


def commit() -> str | None:
    """The commit of the source tree that fewstep runs from, if it is one, and whether the tree differs from it."""
    here = Path(__file__).resolve().parents[2]
    git = lambda *words: subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout
    if not (here / ".git").exists():
        return None
    try:
        changed = git("status", "--porcelain", "--untracked-files=no").strip()
        return git("rev-parse", "HEAD").strip() + ("-changed" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
