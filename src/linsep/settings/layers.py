"""Settings as nested dictionaries: read from a file, assigned in words, laid over one another.

Knows TOML and the shorthands of a config. Knows no field: what they mean is `config`'s business.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError


def read(path: Path) -> dict[str, Any]:
    """What a TOML file says, as it says it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def assignment(text: str) -> dict[str, Any]:
    """'training.epochs=5' -> {"training": {"epochs": 5}}; values are TOML, or else plain text."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip() or not all(path.split(".")):
        raise ConfigError(f"--set {text!r}: should look like training.epochs=5")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return nested(path.strip(), parsed)


def nested(path: str, value: Any) -> dict[str, Any]:
    """("training.epochs", 5) -> {"training": {"epochs": 5}}."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings, the later ones winning; a name alone counts as {"name": ...}."""
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
    if key == "memory" and isinstance(value, int):
        return {"rows": value}
    return value
