"""Settings are nested dictionaries, as in a TOML file: read, assigned on a command line, merged.

Knows TOML and the shorthands of a config. Knows no field: `config` checks them.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError, shortened

DEEPEST = 10  # tables and lists within each other


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file."""
    try:
        return _loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def assignment(text: str) -> dict[str, Any]:
    """'training.epochs=5' -> {"training": {"epochs": 5}}."""
    path, value = split(text, "--set", "training.epochs=5")
    if not all(path.split(".")) or path.count(".") >= DEEPEST:
        raise ConfigError(f"--set {shortened(text)}: should look like training.epochs=5")
    return nested(path, parsed(value))


def split(text: str, flag: str, example: str) -> tuple[str, str]:
    """'name=value' -> ('name', 'value')."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value or not name.isprintable() or not name:
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
    """Merge nested settings, the later ones winning; a name alone counts as {"name": ...}."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old, new = _table(key, result.get(key)), _table(key, value)
            both = isinstance(old, Mapping) and isinstance(new, Mapping)
            result[key] = merged(old, new) if both else new
    return result


def _table(key: str, value: Any) -> Any:
    """Undo the shorthands, so that settings merge."""
    if key in ("scenario", "net") and isinstance(value, str):
        return {"name": value}
    if key == "memory" and isinstance(value, int) and not isinstance(value, bool):
        return {"rows": value}
    return value
