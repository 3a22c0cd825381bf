"""The folder for what can be made again: downloads, prepared images, compiled programs."""

import os
from pathlib import Path


def cache() -> Path:
    """The folder that FEWSTEP_CACHE names, or fewstep in the user's cache."""
    import platformdirs

    own = os.environ.get("FEWSTEP_CACHE")
    return Path(own).expanduser() if own else platformdirs.user_cache_path("fewstep", appauthor=False)
