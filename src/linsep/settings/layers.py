"""Settings are nested dictionaries, as in a TOML file: their names, their files, how they merge.

TOML files, `--set`, `--over`, `--over-range`, `--where` and `Config` share the short names below,
and each of them has a flag: `batch_size` is `--batch-size`. A configuration with a slash or the
ending .toml is a path; anything else is the name of one that comes with linsep, so that neither
hides the other.
"""

import stat
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from ..errors import ConfigError, shortened, unknown

DEEPEST = 10  # tables and lists within each other
LARGEST = 4 * 2**20  # bytes of a file
VARIED = ("over", "search")  # tables with lists or ranges of settings
ENDING = ".toml"
FOLDER = files("linsep") / "configs"
SHORT = {
    "scenario": "scenario.name", "data": "scenario.data", "per_task": "scenario.per_task",
    "per_class": "scenario.per_class", "test_per_class": "scenario.test_per_class",
    "net": "net.name", "width": "net.width", "memory": "memory.size", "epochs": "training.epochs",
    "lr": "training.lr", "batch_size": "training.batch_size", "device": "compute.device",
    "threads": "compute.threads", "tag": "tags", "data_name": "scenario.data_name",
}  # fmt: skip

LABELS = {"name", "tags", "scenario.data_name"}  # what people call a run and its data
# They may differ between equal runs; so may the place of a part of one's own, custom.<name>.source.
NO_NUMBERS = LABELS | {"preset", "scenario.data", "compute.threads", "net.weights"}


def decides(name: str) -> bool:
    """Return whether numbers may depend on a field."""
    place = name.startswith("custom.") and name.endswith(".source")
    return name not in NO_NUMBERS and not place


def full_name(name: str) -> str:
    """'memory' -> 'memory.size', 'net.options.width' -> 'net.width'."""
    return SHORT.get(name, name.removeprefix("options.").replace(".options.", "."))


def short_name(name: str) -> str:
    """'memory.size' -> 'memory'; a setting without a short name keeps its own."""
    return next((short for short, full in SHORT.items() if full == name), name)


# --- files ---------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file, names in full."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for, a device has no end
            raise ConfigError("it is not a regular file")
        if found.st_size > LARGEST:
            raise ConfigError(f"{found.st_size} bytes are too many; at most {LARGEST}")
        return spelled_out(_loads(path.read_text(encoding="utf-8")))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


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


# --- values and tables ---------------------------------------------------------------------------


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
    """{"lr": 0.1} and {"training.lr": 0.1} -> {"training": {"lr": 0.1}}; refuse one that is twice.

    A name with a table is a section, and not short for anything: `memory = {size = 200}`.
    """
    found: dict[str, Any] = {}
    written: dict[str, str] = {}  # how each setting is written here
    for name, value in settings.items():
        if name in VARIED and isinstance(value, Mapping):
            value = spelled_out(value)
        short = name in SHORT and not isinstance(value, Mapping)
        dotted = name if str(name).count(".") < DEEPEST else ""
        layer = nested(SHORT[name] if short else dotted, value) if dotted else {name: value}
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
