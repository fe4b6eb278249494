"""Many runs: planned, searched, and trained on cores, Ray or Slurm."""

from importlib import import_module
from typing import Any

from ..errors import ConfigError


def needed(package: str, what: str, extra: str) -> Any:
    """Import an optional package; if it is missing, the error names the extra that installs it."""
    try:
        return import_module(package)
    except ImportError:
        raise ConfigError(f"{what} needs {package}: pip install 'linsep[{extra}]'") from None
