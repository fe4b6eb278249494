"""Which runs there are, by what they were run with and what came of it.

    for record in Store(Path("runs")).select("scenario=split-cifar10 and memory=200"): ...

The runs' folders are the truth. Beside them, in `.index/`, an sqlite file of this machine remembers
what their config.toml and results.json said and how these files looked, so that only what is new or
changed is read again. The index may be deleted, damaged or out of date: the answer is the same.

Knows names of settings; needs no torch. Changes no run.
"""

import json
import os
import re
import socket
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..errors import ConfigError, StateError, printable, unknown
from ..learning.metrics import METRICS
from ..settings.names import SHORT as SHORT_SETTINGS
from ..settings.names import full_name as full_setting
from . import files, where
from .folder import CONFIG, EVENTS, RESULTS, RunFolder

VERSION = 2  # raise it when facts are made otherwise than before
PATIENCE = 10.0  # seconds to wait for another process at the index
Value = where.Scalar | None

# What a person says for what is stored.
SHORT = SHORT_SETTINGS | {metric: f"class_il.{metric}" for metric in METRICS}


@dataclass(frozen=True)
class Record:
    """A run's folder and what is known of it, flat: {"method": ..., "class_il.faa": ...}."""

    folder: Path
    facts: Mapping[str, Value]

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def finished(self) -> bool:
        return self.facts["status"] == "finished"

    def __getitem__(self, name: str) -> Value:
        return self.facts.get(full_name(name))


class Store:
    """The runs in one folder."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    @property
    def index(self) -> Path:
        """One for each machine: sqlite and file locks do not hold between machines."""
        host = re.sub(r"[^\w.-]", "_", socket.gethostname()) or "here"
        return self.runs / ".index" / f"{host}.sqlite"

    def records(self) -> list[Record]:
        """Every run, by name; the index is brought up to date on the way."""
        stamps = _stamps(self.runs)
        if not stamps:
            return []
        lock = FileLock(self.index.with_suffix(".lock"), timeout=PATIENCE)
        try:
            self.index.parent.mkdir(exist_ok=True)
            with lock:
                facts = self._synchronised(stamps)
        except (OSError, Timeout, sqlite3.Error):  # a folder that cannot be written, or is full
            facts = {name: read_facts(self.runs / name) for name in stamps}
        return [Record(self.runs / name, facts[name]) for name in sorted(facts)]

    def select(self, condition: str | None = None, sort: str | None = None) -> list[Record]:
        """The runs that a condition holds for, by name, or sorted: 'method,-faa'."""
        parsed = where.parse(condition, full_name) if condition is not None else None
        records = self.records()
        if parsed is not None and records:
            check_names(parsed.fields, known_names(records))
            records = [record for record in records if parsed.holds(record.facts)]
        return ordered(records, sort) if sort else records

    def _synchronised(self, stamps: Mapping[str, str]) -> dict[str, dict[str, Value]]:
        try:
            return self._updated(stamps)
        except (sqlite3.DatabaseError, ValueError, TypeError):  # damaged, or no database at all
            for end in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.index}{end}")
            return self._updated(stamps)

    def _updated(self, stamps: Mapping[str, str]) -> dict[str, dict[str, Value]]:
        with closing(sqlite3.connect(self.index, timeout=PATIENCE)) as base, base:
            base.execute("PRAGMA journal_mode = WAL")
            base.execute("PRAGMA synchronous = OFF")  # what is lost is read again
            base.execute(
                "CREATE TABLE IF NOT EXISTS runs (name TEXT PRIMARY KEY, seal TEXT, facts TEXT)"
            )
            rows = base.execute("SELECT name, seal, facts FROM runs").fetchall()
            known = {
                name: json.loads(facts)
                for name, seal, facts in rows
                if name in stamps and seal == _seal(stamps[name], facts)
            }
            gone = [(name,) for name, _, _ in rows if name not in stamps]
            base.executemany("DELETE FROM runs WHERE name = ?", gone)
            new = {name: read_facts(self.runs / name) for name in stamps if name not in known}
            texts = {name: json.dumps(facts) for name, facts in new.items()}
            base.executemany(
                "INSERT OR REPLACE INTO runs VALUES (?, ?, ?)",
                [(name, _seal(stamps[name], text), text) for name, text in texts.items()],
            )
        return known | new


def read_facts(folder: Path) -> dict[str, Value]:
    """What a run's files say, flat. A folder that cannot be read is a fact too."""
    facts: dict[str, Value] = {"name": printable(folder.name), "status": "unfinished"}
    run = RunFolder(folder)
    try:
        facts |= flat(run.config())
        if run.finished:
            results = run.results()
            facts |= {"key": results["key"], "data": results["data"]} | flat(results["metrics"])
            facts["status"] = "finished"
        else:
            facts["progress"] = run.progress(facts.get("training.epochs"))
    except StateError as error:
        facts |= {"status": "damaged", "progress": str(error).replace(f"{folder}/", "")}
    return facts


def open_record(run: Path, runs: Path) -> Record:
    """A run by its folder, or by its name under `runs`."""
    folder = run if run.is_dir() else runs / run
    if not RunFolder(folder).exists:
        raise StateError(f"{run} is not a run: there is no {CONFIG} in {folder}")
    return Record(folder, read_facts(folder))


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Value]:
    """{"training": {"lr": 0.1}} -> {"training.lr": 0.1}; options stand beside their name."""
    found: dict[str, Value] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            inner = prefix if prefix and name == "options" else f"{prefix}{name}."
            found |= flat(value, inner)
        else:
            plain = value is None or isinstance(value, str | int | float | bool)
            found[f"{prefix}{name}"] = value if plain else json.dumps(value)
    return found


def full_name(name: str) -> str:
    return SHORT.get(name, full_setting(name))


def known_names(records: Iterable[Record]) -> set[str]:
    """Every field of these runs and of any config, and the short names."""
    from ..settings.config import Config

    stored = {name for record in records for name in record.facts}
    return stored.union(_setting_names(Config), SHORT)


def check_names(names: Iterable[str], known: set[str]) -> None:
    for name in names:
        if name not in known and full_name(name) not in known:
            found = unknown("field", name, known)
            raise ConfigError(found if len(found) < 400 else found.partition(" Allowed:")[0])


def ordered(records: list[Record], sort: str) -> list[Record]:
    """Sorted by fields, a minus before one for the highest first; what lacks it comes last."""
    names = [name.strip() for name in sort.split(",") if name.strip()]
    check_names([name.removeprefix("-") for name in names], known_names(records))
    for name in reversed(names):
        values = [(record[name.removeprefix("-")], record) for record in records]
        has = [(isinstance(v, str), v, record) for v, record in values if v is not None]
        has.sort(key=itemgetter(0, 1), reverse=name.startswith("-"))
        records = [r for _, _, r in has] + [r for value, r in values if value is None]
    return records


def _setting_names(model: Any, prefix: str = "") -> Iterator[str]:
    for name, info in model.model_fields.items():
        deeper = hasattr(info.annotation, "model_fields")
        inner = f"{prefix}{name}"
        yield from _setting_names(info.annotation, f"{inner}.") if deeper else [inner]


def _stamps(runs: Path) -> dict[str, str]:
    """How the files of every run look: name -> a text that changes when one of them does."""
    if not runs.exists():
        return {}
    with files.reporting(f"cannot read {runs}"):
        entries = sorted(os.scandir(runs), key=attrgetter("name"))
    stamps = {}
    for entry in entries:
        looks = [_look(f"{entry.path}/{name}") for name in (CONFIG, RESULTS)]
        if looks[0] is None:
            continue  # no run
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            warnings.warn(f"skipped {printable(entry.name)}: its name is not UTF-8", stacklevel=4)
            continue
        if looks[1] is None:
            looks.append(_look(f"{entry.path}/{EVENTS}"))
        stamps[entry.name] = f"{VERSION} {looks}"
    return stamps


def _seal(stamp: str, facts: str) -> str:
    """Of a row: how the files looked, and that the row is what was written."""
    return files.digest(f"{stamp} {facts}".encode())


def _look(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
