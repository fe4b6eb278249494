"""The configs that come with linsep, by name, and the way from what was typed to a config's text.

What has a slash or ends in .toml is a path; anything else is a name. So a file of yours never hides
a config that comes with linsep, nor the other way round.
"""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from ..errors import ConfigError, unknown
from .layers import read

ENDING = ".toml"
FOLDER = files("linsep") / "configs"


def shipped() -> dict[str, str]:
    """The names of the configs that come with linsep, and the first line of each."""
    found = [file.name for file in FOLDER.iterdir() if file.name.endswith(ENDING)]
    names = sorted(name.removesuffix(ENDING) for name in found)
    return {name: _first_line(name) for name in names}


def read_config(text: str) -> dict[str, Any]:
    """Return the settings of a config: 'fashion-mini', which linsep brings, or './mine.toml'."""
    if "/" in text or text.endswith(ENDING):
        return _read_file(Path(text))
    if text not in shipped():
        which = unknown("config", text[:60], shipped())
        there = f": write ./{text[:60]} for the file here" if _here(text) else ""
        raise ConfigError(f"{which}; a file needs a slash or ends in {ENDING}{there}")
    with as_file(FOLDER / f"{text}{ENDING}") as path:
        return read(path)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return read(path)
    except ConfigError as error:
        if path.stem in shipped() and not path.exists():
            raise ConfigError(f"{error}; linsep's own is called {path.stem}") from None
        raise


def _here(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # no name that a file can have
        return False


def _first_line(name: str) -> str:
    line, _, _ = (FOLDER / f"{name}{ENDING}").read_text(encoding="utf-8").partition("\n")
    return line.removeprefix("# ")
