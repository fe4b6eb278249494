"""Bundles: finished runs in one file, to send to somebody, who need not trust it.

    manifest.json                   which runs, and a digest of every file of theirs
    <run>/config.toml, results.json, events.jsonl, environment.json, timing.jsonl, cost.json,
        analysis/*.json
    <run>/model.safetensors         if asked for

No images, no paths, no commands. The archive's comment is a digest of all bytes before it, so that
a change of any byte is noticed. That guards against accidents and careless hands; it cannot tell
who made the bundle. Runs that were added have an `origin.json`, which says where they come from.
"""

import io
import json
import re
import shutil
import tomllib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tomli_w
from filelock import FileLock
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from .. import __version__
from ..errors import StateError, printable
from . import files
from .folder import CONFIG, COST, ENVIRONMENT, EVENTS, MODEL, ORIGIN, RESULTS, TIMING, RunFolder

MANIFEST = "manifest.json"
UNPACKING = (
    zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError,
)  # fmt: skip
ADDING = ".adding"  # where runs are checked before they get their names
FORMAT = "linsep bundle 1"
COMMENT = re.compile(rb"linsep bundle, blake2b of all before: ([0-9a-f]{32})")
NAME = re.compile(r"[^\W_][\w.+=,-]{0,199}")  # of a run's folder
ANALYSIS = re.compile(r"analysis/[a-z]{1,20}\.json")
NEEDED = CONFIG, RESULTS, EVENTS
ALLOWED = *NEEDED, ENVIRONMENT, TIMING, COST, MODEL
LARGEST, MOST = 2**30, 100_000  # bytes of a bundle when unpacked, files in it
PRIVATE = "command", "git"  # entries of an environment that stay at home


@dataclass(frozen=True)
class Added:
    """What became of a run of a bundle."""

    name: str
    status: str  # added, there already, differs


def pack(folders: Sequence[Path], *, weights: bool = False) -> bytes:
    """Finished runs as a bundle; the same runs give the same bytes."""
    contents = {folder.name: dict(shared(folder, weights=weights)) for folder in sorted(folders)}
    digests = {
        name: {file: files.digest(content) for file, content in inside.items()}
        for name, inside in contents.items()
    }
    manifest = {"format": FORMAT, "linsep": __version__, "runs": digests}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _put(archive, MANIFEST, json.dumps(manifest, indent=1).encode())
        for name, inside in contents.items():
            for file, content in inside.items():
                _put(archive, f"{name}/{file}", content)
        archive.comment = _comment("0" * 32)
    whole = buffer.getvalue()[: -len(_comment("0" * 32))]
    return whole + _comment(files.digest(whole))


def add(bundle: Path, runs: Path) -> list[Added]:
    """Put the runs of a bundle beside those in a folder: all of them are sound, or none is added.

    A run that is there already stays as it is.
    """
    content = files.read(bundle, largest=LARGEST)
    origin = {"bundle": printable(bundle.name), "digest": files.digest(content)}
    inside = _checked(content, bundle)
    custom = json.dumps(origin, indent=1).encode() + b"\n"
    with files.reporting(f"cannot use {runs}"):
        runs.mkdir(parents=True, exist_ok=True)
        part = runs / ADDING
        with FileLock(runs / f"{ADDING}.lock"):
            shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
            try:
                for name, content_of in inside.items():
                    _fill(part / name, content_of | {ORIGIN: custom})
                    _check_run(part / name, bundle)
                return [_moved(path, runs) for path in sorted(part.iterdir())]
            finally:
                shutil.rmtree(part, ignore_errors=True)


def _moved(folder: Path, runs: Path) -> Added:
    mine = RunFolder(runs / folder.name)
    if not mine.exists:
        with suppress(OSError):  # somebody else has added it meanwhile
            folder.replace(mine.path)
            files.sync_folder(runs)
            return Added(folder.name, "added")
    same = mine.finished and mine.content(RESULTS) == RunFolder(folder).content(RESULTS)
    return Added(folder.name, "there already" if same else "differs")


# --- packing -------------------------------------------------------------------------------------


def shared(folder: Path, *, weights: bool = False) -> Iterator[tuple[str, bytes]]:
    """The files of a run that others may see, by name."""
    run = RunFolder(folder)
    if not run.finished:
        raise StateError(f"{folder} is not finished, and only finished runs can be bundled")
    run.results(), run.events(), run.config()  # refuse what is damaged
    settings = tomllib.loads(run.config_text())
    settings.get("scenario", {}).pop("data", None)
    settings.get("net", {}).pop("weights", None)
    yield CONFIG, tomli_w.dumps(settings).encode()
    yield RESULTS, run.content(RESULTS)
    yield EVENTS, run.content(EVENTS)
    seen = [{k: v for k, v in one.items() if k not in PRIVATE} for one in run.environments()]
    yield ENVIRONMENT, json.dumps(seen, indent=1).encode() + b"\n"
    yield from ((name, run.content(name)) for name in (TIMING, COST) if run.has(name))
    for path in sorted((folder / "analysis").glob("*.json")):
        if ANALYSIS.fullmatch(f"analysis/{path.name}"):
            yield f"analysis/{path.name}", files.read(path)
    if weights:
        if not run.has(MODEL):
            raise StateError(f"{folder} has no {MODEL}; leave out --weights")
        yield MODEL, files.read(folder / MODEL, largest=LARGEST)


def _put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name)  # dated 1980, whenever it is made
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


def _comment(digest: str) -> bytes:
    return f"linsep bundle, blake2b of all before: {digest}".encode()


# --- unpacking -----------------------------------------------------------------------------------


class _Manifest(TypedDict):
    format: Literal["linsep bundle 1"]
    runs: dict[str, dict[str, str]]


_MANIFEST = TypeAdapter(_Manifest)


def _checked(content: bytes, bundle: Path) -> dict[str, dict[str, bytes]]:
    """The files of every run, by run and name, if the bundle is whole and each is as it should."""
    comment = _comment("0" * 32)
    sealed = COMMENT.fullmatch(content[-len(comment) :])
    if sealed is None:
        raise StateError(f"{bundle} is not a bundle of runs, or it was cut off")
    if files.digest(content[: -len(comment)]).encode() != sealed[1]:
        raise StateError(f"{bundle} was changed: its checksum does not match")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read(archive, bundle)
    except UNPACKING as error:
        raise StateError(f"{bundle} cannot be unpacked: {printable(str(error))}") from None


def _read(archive: zipfile.ZipFile, bundle: Path) -> dict[str, dict[str, bytes]]:
    members = archive.infolist()
    if len(members) > MOST or sum(info.file_size for info in members) > LARGEST:
        raise StateError(f"{bundle} is too large: over {MOST} files or {LARGEST} bytes")
    contents: dict[str, bytes] = {}
    for info in members:
        if info.filename in contents:
            raise StateError(f"{bundle} has {printable(info.filename)!r} twice")
        with archive.open(info) as file:
            contents[info.filename] = file.read(info.file_size)
    runs = _promised(contents.pop(MANIFEST, b""), bundle)
    promised = {f"{run}/{file}": d for run, inside in runs.items() for file, d in inside.items()}
    for name in {**promised, **contents}:
        if name not in promised:
            raise StateError(f"{bundle} has a file that {MANIFEST} does not name: {name!r}")
        if files.digest(contents.get(name, b"")) != promised[name]:
            raise StateError(f"{bundle}: {name} is not what {MANIFEST} promises")
    return {name: {f: contents[f"{name}/{f}"] for f in inside} for name, inside in runs.items()}


def _promised(content: bytes, bundle: Path) -> Mapping[str, Mapping[str, str]]:
    """The digests of a manifest, by run and file, if all names are those of runs and their files"""
    runs = files.parsed(f"{bundle}: {MANIFEST}", content, _MANIFEST)["runs"]
    for name, inside in runs.items():
        if not NAME.fullmatch(name):
            raise StateError(f"{bundle}: {printable(name)!r} is no name of a run")
        for file in inside:
            if file not in ALLOWED and not ANALYSIS.fullmatch(file):
                raise StateError(f"{bundle}: {name} has {printable(file)!r}, which no run has")
        if missing := [file for file in NEEDED if file not in inside]:
            raise StateError(f"{bundle}: {name} has no {missing[0]}")
    return runs


def _check_run(folder: Path, bundle: Path) -> None:
    """Refuse files that do not read as those of a finished run of that name."""
    run = RunFolder(folder)
    try:
        run.config(), run.events(), run.timing(), run.environments(), run.cost()
        key = run.results()["key"]
    except StateError as error:
        raise StateError(f"{bundle}: {str(error).replace(f'{folder.parent}/', '')}") from None
    if not folder.name.endswith(f"-{key}"):
        raise StateError(f"{bundle}: {folder.name} has results of another run, {printable(key)}")


def _fill(folder: Path, contents: Mapping[str, bytes]) -> None:
    for file, content in contents.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
