"""Settings are nested dictionaries, as in a TOML file: read, assigned on a command line, merged.

Knows TOML and the short names of settings. Knows no field: `config` checks them.
"""

import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError, shortened
from .names import SHORT, full_name

DEEPEST = 10  # tables and lists within each other
LARGEST = 4 * 2**20  # bytes of a file
VARIED = ("over", "search")  # tables with lists or ranges of settings


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file, names in full."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for, a device has no end
            raise ConfigError("it is not a regular file")
        if found.st_size > LARGEST:
            raise ConfigError(f"{found.st_size} bytes are no configuration; at most {LARGEST}")
        return spelled_out(_loads(path.read_text(encoding="utf-8")))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def assignment(text: str) -> dict[str, Any]:
    """'training.epochs=5' -> {"training": {"epochs": 5}}."""
    path, value = split(text, "--set", "training.epochs=5")
    return nested(path, parsed(value))


def split(text: str, flag: str, example: str) -> tuple[str, str]:
    """'name=value' -> ('name', 'value')."""
    name, equals, value = (part.strip() for part in text.partition("="))
    dotted = all(name.split(".")) and name.count(".") < DEEPEST
    if not equals or not value or not name.isprintable() or not dotted:
        raise ConfigError(f"{flag} {shortened(text)}: should look like {example}")
    return name, value


def parsed(text: str) -> Any:
    """Parse a TOML value; anything else is plain text."""
    try:
        return _loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
    except ValueError as error:
        raise ConfigError(f"{shortened(text)}: {error}") from None


def _loads(text: str) -> dict[str, Any]:
    """Parse TOML; raise ValueError for huge integers and deep nesting."""
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level: list[Any] = [found]
    for _ in range(DEEPEST + 1):
        level = [inner for value in level for inner in _contents(value)]
        if any(isinstance(value, int) and value.bit_length() > 64 for value in level):
            raise ValueError("an integer of more than 64 bits")
    if level:
        raise ValueError("nested too deeply")
    return found


def _contents(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def nested(path: str, value: Any) -> dict[str, Any]:
    """("training.epochs", 5) -> {"training": {"epochs": 5}}."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"training": {"lr": 1}} -> {"training.lr": 1}."""
    if not isinstance(tables, Mapping):
        raise ConfigError(f"should be a table, not {shortened(tables)}")
    found: dict[str, Any] = {}
    for name, value in tables.items():
        inner = isinstance(value, Mapping)
        found |= flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return found


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested settings, the later ones winning; short names are spelled out."""
    result: dict[str, Any] = {}
    for layer in layers:
        result = _joined(result, spelled_out(layer))
    return result


def spelled_out(settings: Mapping[str, Any]) -> dict[str, Any]:
    """{"lr": 0.1} -> {"training": {"lr": 0.1}}; refuse a setting that is there twice.

    A name with a table is a section, and not short for anything: `memory = {rows = 200}`.
    """
    found: dict[str, Any] = {}
    written: dict[str, str] = {}  # how each setting is written here
    for name, value in settings.items():
        if name in VARIED and isinstance(value, Mapping):
            value = spelled_out(value)
        short = name in SHORT and not isinstance(value, Mapping)
        layer = nested(SHORT[name], value) if short else {name: value}
        for field in flat(layer):
            now, before = name if short else field, written.get(full_name(field))
            if before is not None:
                raise ConfigError(f"{before} and {now} are the same setting: give one of them")
            written[full_name(field)] = now
        found = _joined(found, layer)
    return found


def _joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(old)
    for key, value in new.items():
        before = result.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = _joined(before, value)
        result[key] = value
    return result
