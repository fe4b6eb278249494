"""Bundles: finished runs in one file, to send to somebody, who need not trust it.

    <run>/manifest.json             with a digest of every other file of the run
    <run>/config.toml, results.json, events.jsonl, timing.jsonl, cost.json, analysis/*.json
    <run>/model.safetensors         if asked for

No images, no paths, no commands. The archive's comment is a digest of all bytes before it, so that
a change of any byte is noticed. That guards against accidents and careless hands; it cannot tell
who made the bundle. The manifests of runs that were added say where they come from.
"""

import io
import re
import shutil
import tomllib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tomli_w
from filelock import FileLock

from ..errors import StateError, printable
from . import files, manifest
from .folder import CONFIG, COST, EVENTS, RESULTS, TIMING, RunFolder
from .manifest import MODEL, Manifest, Origin, noted

UNPACKING = (
    zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError,
)  # fmt: skip
ADDING = ".adding"  # where runs are checked before they get their names
COMMENT = re.compile(rb"linsep bundle, blake2b of all before: ([0-9a-f]{32})")
NAME = re.compile(r"[^\W_][\w.+=,-]{0,199}")  # of a run's folder
ANALYSIS = re.compile(r"analysis/[a-z]{1,20}\.json")
NEEDED = manifest.NAME, CONFIG, RESULTS, EVENTS
ALLOWED = *NEEDED, TIMING, COST, MODEL
LARGEST, MOST = 2**30, 100_000  # bytes of a bundle when unpacked, files in it
PRIVATE = "command", "git"  # entries of an environment that stay at home


@dataclass(frozen=True)
class Added:
    """What became of a run of a bundle."""

    name: str
    status: str  # added, there already, differs


def pack(folders: Sequence[Path], *, weights: bool = False) -> bytes:
    """Finished runs as a bundle; the same runs give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in sorted(folders):
            told, contents = shared(folder, weights=weights)
            for file, content in {manifest.NAME: told.to_bytes(), **contents}.items():
                info = zipfile.ZipInfo(f"{folder.name}/{file}")  # dated 1980, whenever it is made
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, content)
        archive.comment = _comment("0" * 32)
    whole = buffer.getvalue()[: -len(_comment("0" * 32))]
    return whole + _comment(files.digest(whole))


def add(bundle: Path, runs: Path) -> list[Added]:
    """Put the runs of a bundle beside those in a folder: all of them are sound, or none is added.

    A run that is there already stays as it is.
    """
    content = files.read(bundle, largest=LARGEST)
    origin = Origin(bundle=printable(bundle.name), digest=files.digest(content))
    inside = _checked(content, bundle)
    with files.reporting(f"cannot use {runs}"):
        runs.mkdir(parents=True, exist_ok=True)
        part = runs / ADDING
        with FileLock(runs / f"{ADDING}.lock"):
            shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
            try:
                for name, (told, contents) in inside.items():
                    # Labels may change, so that what is noted of the config would not last.
                    lasting = {file: told.files[file] for file in contents if file != CONFIG}
                    mine = told.model_copy(update={"origin": origin, "files": lasting})
                    _fill(part / name, contents | {manifest.NAME: mine.to_bytes()})
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


def shared(folder: Path, *, weights: bool = False) -> tuple[Manifest, dict[str, bytes]]:
    """What others may see of a run: its manifest, and its other files by name."""
    run = RunFolder(folder)
    if not run.finished:
        raise StateError(f"{folder} is not finished, and only finished runs can be bundled")
    contents = dict(_contents(run, weights))
    told = run.manifest()
    seen = [{k: v for k, v in one.items() if k not in PRIVATE} for one in told.environments]
    every = {file: noted(content) for file, content in contents.items()}
    made = {"key": run.results()["key"], "files": every, "environments": seen, "origin": None}
    return told.model_copy(update=made), contents


def _contents(run: RunFolder, weights: bool) -> Iterator[tuple[str, bytes]]:
    run.results(), run.events(), run.config()  # refuse what is damaged
    settings = tomllib.loads(run.config_text())
    settings.get("scenario", {}).pop("data", None)
    settings.get("net", {}).pop("weights", None)
    yield CONFIG, tomli_w.dumps(settings).encode()
    yield from ((name, run.content(name)) for name in (RESULTS, EVENTS))
    yield from ((name, run.content(name)) for name in (TIMING, COST) if run.has(name))
    for path in sorted((run.path / "analysis").glob("*.json")):
        if ANALYSIS.fullmatch(f"analysis/{path.name}"):
            yield f"analysis/{path.name}", files.read(path)
    if weights:
        if not run.has(MODEL):
            raise StateError(f"{run.path} has no {MODEL}; leave out --weights")
        yield MODEL, files.read(run.path / MODEL, largest=LARGEST)


def _comment(digest: str) -> bytes:
    return f"linsep bundle, blake2b of all before: {digest}".encode()


# --- unpacking -----------------------------------------------------------------------------------


Inside = dict[str, tuple[Manifest, dict[str, bytes]]]  # by run: its manifest, and its other files


def _checked(content: bytes, bundle: Path) -> Inside:
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


def _read(archive: zipfile.ZipFile, bundle: Path) -> Inside:
    members = archive.infolist()
    if len(members) > MOST or sum(info.file_size for info in members) > LARGEST:
        raise StateError(f"{bundle} is too large: over {MOST} files or {LARGEST} bytes")
    runs: dict[str, dict[str, bytes]] = {}
    for info in members:
        run, _, file = info.filename.partition("/")
        inside = runs.setdefault(run, {})
        if file in inside:
            raise StateError(f"{bundle} has {printable(info.filename)!r} twice")
        with archive.open(info) as opened:
            inside[file] = opened.read(info.file_size)
    return {name: _promised(name, inside, bundle) for name, inside in runs.items()}


def _promised(
    name: str, inside: dict[str, bytes], bundle: Path
) -> tuple[Manifest, dict[str, bytes]]:
    """A run's manifest and its other files, if these are what the manifest promises."""
    if not NAME.fullmatch(name):
        raise StateError(f"{bundle}: {printable(name)!r} is not the name of a run")
    for file in inside:
        if file not in ALLOWED and not ANALYSIS.fullmatch(file):
            raise StateError(f"{bundle}: {name} has {printable(file)!r}, which no run has")
    if missing := [file for file in NEEDED if file not in inside]:
        raise StateError(f"{bundle}: {name} has no {missing[0]}")
    contents = {file: content for file, content in inside.items() if file != manifest.NAME}
    told = manifest.parsed(inside[manifest.NAME], f"{bundle}: {name}/{manifest.NAME}")
    if told.files != {file: noted(content) for file, content in contents.items()}:
        raise StateError(f"{bundle}: {name} has other files than its {manifest.NAME} promises")
    return told, contents


def _check_run(folder: Path, bundle: Path) -> None:
    """Refuse files that do not read as those of a finished run of that name."""
    run = RunFolder(folder)
    try:
        run.config(), run.events(), run.timing(), run.cost()
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
