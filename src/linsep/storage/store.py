"""The store: finds runs by their settings and results, and labels them.

    for record in Store(Path("runs")).select("scenario=split-cifar10 and memory=200"): ...

The runs' folders are the truth. Beside them, in `.index/`, a file of this machine remembers what
their config.toml, results.json and cost.json contained and how these files looked, so that only
what is new or changed is read again. The index may be deleted, damaged or out of date: the answer
is the same. Needs no torch.
"""

import json
import os
import re
import socket
import tomllib
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import tomli_w

from ..errors import ConfigError, StateError, printable, unknown
from ..learning.metrics import COSTS, METRICS
from ..settings import layers
from ..settings.layers import SHORT as SHORT_SETTINGS
from ..settings.layers import full_name as full_setting
from . import files
from .folder import COMPRESSED, CONFIG, COST, EVENTS, RESULTS, RunFolder
from .where import Query, Scalar

VERSION = 5  # raise it when facts are made otherwise than before
SHORTEST = 6  # characters of a key in a list
MOST_LISTED = 5  # runs in a message
Value = Scalar | None

# What a person says for what is stored.
SHORT = SHORT_SETTINGS | {metric: f"class_il.{metric}" for metric in METRICS} | {"tag": "tags"}
SHORT |= {name.rpartition(".")[2]: f"cost.{name}" for name in COSTS}


@dataclass(frozen=True)
class Record:
    """A run's folder and what is known of it, flat: {"method": ..., "class_il.faa": ...}."""

    folder: Path
    facts: Mapping[str, Value]

    @property
    def name(self) -> str:
        """The name of the run's folder, which no other run beside it has."""
        return printable(self.folder.name)

    @property
    def given_name(self) -> str | None:
        """What the user calls the run; several may have the same name. None: nothing."""
        name = str(self.facts["name"])
        return None if name == self.name else name

    @property
    def tags(self) -> list[str]:
        return [tag for tag in str(self.facts.get("tags") or "").split(", ") if tag]

    @property
    def key(self) -> str:
        """Of what decided the run's numbers; an unfinished one has it in its folder's name only."""
        named = re.search(r"-([0-9a-f]{10})$", self.folder.name)
        return str(self.facts.get("key") or (named[1] if named else ""))

    @property
    def finished(self) -> bool:
        return self.facts["status"] == "finished"

    def __getitem__(self, name: str) -> Value:
        return self.facts.get(full_name(name))


@dataclass(frozen=True)
class Store:
    """The runs in one folder."""

    runs: Path

    @property
    def index(self) -> Path:
        """One for each machine: the same file may look different from another."""
        host = re.sub(r"[^\w.-]", "_", socket.gethostname()) or "here"
        return self.runs / ".index" / f"{host}.json"

    def records(self) -> list[Record]:
        """Every run, by name; the index is brought up to date on the way."""
        stamps, index = _stamps(self.runs), self._read_index()
        known = {n: facts for n, (stamp, facts) in index.items() if stamp == stamps.get(n)}
        new = {name: read_facts(self.runs / name) for name in stamps if name not in known}
        facts = known | new
        if new or len(facts) < len(index):
            content = json.dumps({name: (stamps[name], facts[name]) for name in facts}).encode()
            with suppress(StateError):  # a folder that cannot be written, or is full
                files.make_folder(self.index.parent)
                files.write(self.index, files.digest(content).encode() + b"\n" + content)
        return [Record(self.runs / name, facts[name]) for name in sorted(facts)]

    def select(self, condition: str | None = None, sort: str | None = None) -> list[Record]:
        """The runs that a condition holds for, by name, or sorted: 'method,-faa'."""
        query = Query(condition, sort, full_name, {"tags"})
        records = self.records()
        check_names(query.sorted_by + (query.fields if records else []), records)
        return [records[place] for place in query.select([record.facts for record in records])]

    def _read_index(self) -> dict[str, tuple[str, dict[str, Value]]]:
        """How each run's files looked, and its facts; nothing if a bit is not as written."""
        with suppress(StateError):
            digest, _, content = files.read(self.index, largest=None).partition(b"\n")
            if digest == files.digest(content).encode():
                return dict(json.loads(content))
        return {}


def read_facts(folder: Path) -> dict[str, Value]:
    """Return the contents of a run's files, flat; for an unreadable folder, the reason."""
    facts: dict[str, Value] = {"name": printable(folder.name), "status": "unfinished"}
    run = RunFolder(folder)
    try:
        config = run.config()
        facts |= flat(config)
        if tags := config.get("tags"):
            facts["tags"] = ", ".join(tags)
        if run.finished:
            results = run.results()
            facts |= {"key": results["key"], "data": results["data"]} | flat(results["metrics"])
            facts |= {f"cost.{name}": value for name, value in flat(run.cost()).items()}
            facts["status"] = "finished"
            if origin := run.manifest().origin:
                facts["origin"] = origin.bundle
        else:
            facts["progress"] = run.progress(facts.get("training.epochs"))
    except StateError as error:
        facts |= {"status": "damaged", "progress": str(error).replace(f"{folder}/", "")}
    return facts


def open_record(run: Path | str, runs: Path) -> Record:
    """A run by its path; or, of those under `runs`, by its name, its key or the start of either."""
    for folder in (Path(run), runs / run):
        if RunFolder(folder).exists:
            return Record(folder, read_facts(folder))
    if os.path.isdir(run):
        raise StateError(f"{run} is not a run: there is no {CONFIG} in it")
    found = called(str(run), Store(runs).records())
    if len(found) == 1:
        return found[0]
    if not found:
        raise StateError(f"{run} is not a run: it is no path, and no name or key in {runs}")
    listed = [record.name for record in found[:MOST_LISTED]]
    listed += ["..."] * (len(found) > MOST_LISTED)
    raise StateError(f"{run} may be any of {len(found)} runs: {', '.join(listed)}")


def called(word: str, records: Iterable[Record]) -> list[Record]:
    """The runs with this name or key, or else those whose name or key starts with it."""
    named = [(record, (record.key, record.name, str(record["name"]))) for record in records]
    exact = [record for record, words in named if word in words]
    return exact or [r for r, words in named if any(w.startswith(word) for w in words)]


def short_keys(records: Sequence[Record]) -> dict[Path, str]:
    """The starts of the runs' keys, as long as needed to tell these runs apart."""
    keys = {record.key for record in records}
    length = SHORTEST
    while len({key[:length] for key in keys}) < len(keys):
        length += 1
    return {record.folder: record.key[:length] for record in records}


def labels_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The labels among a run's settings: its name, its tags and the name of its data."""
    found = {name: settings[name] for name in ("name", "tags") if settings.get(name)}
    scenario = settings.get("scenario", {})
    data_name = scenario.get("data_name") if isinstance(scenario, Mapping) else None
    return found | ({"scenario": {"data_name": data_name}} if data_name else {})


def relabel(folder: Path, labels: Mapping[str, Any], without: Collection[str] = ()) -> bool:
    """Give a stored run new labels; tags are added, except those that it is to be `without`.

    Return whether anything changed. No number and no key depends on a label, so a run may be
    renamed at any time, finished or not.
    """
    if not labels and not without:
        return False
    run = RunFolder(folder)
    run.config()  # refuses a damaged one
    before = tomllib.loads(run.config_text())
    tags = dict.fromkeys([*before.get("tags", ()), *labels.get("tags", ())])
    after = layers.merged(before, labels, {"tags": [tag for tag in tags if tag not in without]})
    if not after["tags"]:
        del after["tags"]
    if after == before:
        return False
    files.write(folder / CONFIG, tomli_w.dumps(after).encode())
    return True


def flat(table: Mapping[str, Any]) -> dict[str, Value]:
    """{"training": {"lr": 0.1}} -> {"training.lr": 0.1}; options stand beside their name."""
    found = {}
    for name, value in layers.flat(table).items():
        plain = value is None or isinstance(value, str | int | float | bool)
        found[name.replace(".options.", ".", 1)] = value if plain else json.dumps(value)
    return found


def full_name(name: str) -> str:
    return SHORT.get(name, full_setting(name))


def check_names(names: Iterable[str], records: Iterable[Record]) -> None:
    """Refuse a name that is no field of these runs or of any config, and no short name."""
    from ..settings.config import all_settings

    stored = {name for record in records for name in record.facts}
    known = stored.union((setting.name for setting in all_settings()), SHORT)
    for name in names:
        if name not in known and full_name(name) not in known:
            found = unknown("field", name, known)
            raise ConfigError(found if len(found) < 400 else found.partition(" Allowed:")[0])


def _stamps(runs: Path) -> dict[str, str]:
    """How the files of every run look: name -> a text that changes when one of them does."""
    stamps, entries = {}, list[os.DirEntry[str]]()
    with files.reporting(f"cannot read {runs}"), suppress(FileNotFoundError):
        entries = sorted(os.scandir(runs), key=attrgetter("name"))
    for entry in entries:
        looks = [_look(f"{entry.path}/{name}") for name in (CONFIG, RESULTS, COST)]
        if looks[0] is None:
            continue  # no run
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            warnings.warn(f"skipped {printable(entry.name)}: its name is not UTF-8", stacklevel=4)
            continue
        if looks[1] is None:
            looks += [_look(f"{entry.path}/{name}") for name in (EVENTS, COMPRESSED[RESULTS])]
        stamps[entry.name] = f"{VERSION} {looks}"
    return stamps


def _look(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
