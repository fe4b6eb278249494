"""Where data sets and prepared images live on this machine.

Knows folders and environment variables. Knows nothing of formats.

    LINSEP_DATA    the folder with the data sets, when no --data is given
    LINSEP_CACHE   the folder for everything that can be made again (default: the platform's cache)
"""

import os
import sys
from pathlib import Path


def cache_home() -> Path:
    """Return the platform's folder for what can be made again, with our name in it."""
    if given := os.environ.get("LINSEP_CACHE"):
        return Path(os.path.expanduser(given))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "linsep"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "linsep"


def data_folder(given: Path | None = None) -> Path:
    """Return --data if given, else LINSEP_DATA, else `data` in the cache folder."""
    named = given or os.environ.get("LINSEP_DATA")
    return Path(os.path.expanduser(named)) if named else cache_home() / "data"
