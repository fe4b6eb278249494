"""Bundles: what is sent arrives whole, nothing private is sent, and nothing in one is trusted."""

import io
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from linsep.errors import StateError
from linsep.storage import files, manifest
from linsep.storage.bundle import add, pack
from linsep.storage.store import Store
from tests.helpers.command import TINY, command
from tests.helpers.made_runs import make_run

KEY = "-0123456789"
SEAL = "linsep bundle, blake2b of all before: "


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A finished run whose config and environment have things that are nobody's business."""
    data = {"scenario": {"data": "/home/me/secret-images"}}
    folder = make_run(tmp_path / "mine", "er", 0, 60.0, settings=data, label=KEY)
    (folder / "events.jsonl").write_bytes(b"")
    here = {"cpu": "x", "command": ["linsep", "/home/me"], "git": {"commit": "c0ffee"}}
    (folder / "manifest.json").write_bytes(manifest.new(environments=[here]).to_bytes())
    (folder / "state.safetensors").write_bytes(b"weights and images")
    return folder


def written(bundle: bytes, path: Path) -> Path:
    path.write_bytes(bundle)
    return path


def sealed(members: dict[str, bytes] | list[tuple[zipfile.ZipInfo | str, bytes]]) -> bytes:
    """A bundle as somebody with bad intentions would make it: its checksum is right."""
    buffer = io.BytesIO()
    pairs = members.items() if isinstance(members, dict) else members
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in pairs:
            archive.writestr(name, content)
        archive.comment = f"{SEAL}{'0' * 32}".encode()
    whole = buffer.getvalue()[: -len(SEAL) - 32]
    return whole + f"{SEAL}{files.digest(whole)}".encode()


def contents(folder: Path) -> dict[str, bytes]:
    wanted = "config.toml", "results.json", "events.jsonl"
    return {file: (folder / file).read_bytes() for file in wanted}


def whole(run: str, inside: dict[str, bytes]) -> dict[str, bytes]:
    """A run's members of a bundle, with a manifest that promises them."""
    told = manifest.new(files={file: manifest.noted(content) for file, content in inside.items()})
    every = inside | {"manifest.json": told.to_bytes()}
    return {f"{run}/{file}": content for file, content in every.items()}


def test_what_is_sent_arrives_and_is_marked(made: Path, tmp_path: Path) -> None:
    bundle = written(pack([made]), tmp_path / "theirs.zip")
    (one,) = add(bundle, tmp_path / "other")
    assert (one.name, one.status) == (made.name, "added")
    (record,) = Store(tmp_path / "other").records()
    (own,) = Store(made.parent).records()
    assert record["origin"] == "theirs.zip"
    assert own["origin"] is None
    expected = {name: fact for name, fact in own.facts.items() if name != "scenario.data"}
    assert record.facts == expected | {"origin": "theirs.zip"}


def test_nothing_private_is_sent(made: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(pack([made]))) as archive:
        names = archive.namelist()
        everything = b"".join(archive.read(name) for name in names)
    assert not any(name.endswith((".pt", ".safetensors")) for name in names)
    for private in (b"/home/me", b"c0ffee", b"secret"):
        assert private not in everything


def test_a_change_of_any_byte_is_refused(made: Path, tmp_path: Path) -> None:
    whole = pack([made])
    for place in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[place] ^= 1
        with pytest.raises(StateError):
            add(written(bytes(changed), tmp_path / "b.zip"), tmp_path / "other")
    for length in range(0, len(whole), 31):
        with pytest.raises(StateError):
            add(written(whole[:length], tmp_path / "b.zip"), tmp_path / "other")
    assert not list((tmp_path / "other").glob("*"))


def test_ones_own_runs_stay(made: Path, tmp_path: Path) -> None:
    bundle = written(pack([made]), tmp_path / "b.zip")
    (again,) = add(bundle, made.parent)
    assert again.status == "there already"
    results = (made / "results.json").read_text().replace("60.0", "61.0")
    (made / "results.json").write_text(results)
    (again,) = add(bundle, made.parent)
    assert again.status == "differs"
    assert (made / "results.json").read_text() == results
    assert manifest.read(made).origin is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("../../escaped-0123456789", "is not the name of a run"),
        ("<script>-0123456789", "is not the name of a run"),
        ("er\x1b[31m-0123456789", "is not the name of a run"),
        ("er-200-s0-9999999999", "has results of another run"),
    ],
)
def test_a_malicious_name_does_nothing(name: str, problem: str, made: Path, tmp_path: Path) -> None:
    bundle = written(sealed(whole(name, contents(made))), tmp_path / "b.zip")
    refused(bundle, tmp_path, problem)


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("{}/timing.jsonl", "other files than its manifest.json promises"),
        ("../evil.sh", "is not the name of a run"),
    ],
)
def test_a_file_that_no_manifest_names_is_refused(
    file: str, problem: str, made: Path, tmp_path: Path
) -> None:
    more = whole(made.name, contents(made)) | {file.format(made.name): b"rm -rf /"}
    refused(written(sealed(more), tmp_path / "b.zip"), tmp_path, problem)


def test_a_link_arrives_as_no_link(made: Path, tmp_path: Path) -> None:
    inside = whole(made.name, contents(made))
    link = zipfile.ZipInfo(f"{made.name}/events.jsonl")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    pairs: list[tuple[zipfile.ZipInfo | str, bytes]] = [
        (link if name == link.filename else name, content) for name, content in inside.items()
    ]
    add(written(sealed(pairs), tmp_path / "b.zip"), tmp_path / "other")
    assert not any(path.is_symlink() for path in (tmp_path / "other").rglob("*"))


def test_a_bomb_is_refused(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linsep.storage.bundle.LARGEST", 10_000_000)
    inside = contents(made) | {"timing.jsonl": bytes(20_000_000)}
    bundle = sealed(whole(made.name, inside))
    assert len(bundle) < 100_000
    refused(written(bundle, tmp_path / "b.zip"), tmp_path, "too large")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("results.json", b'{"key": "0123456789"}'),
        ("config.toml", b"method = 3"),
        ("events.jsonl", b"{}\n"),
        ("cost.json", b"[[["),
    ],
)
def test_a_file_that_is_none_is_refused(
    file: str, content: bytes, made: Path, tmp_path: Path
) -> None:
    bundle = sealed(whole(made.name, contents(made) | {file: content}))
    refused(written(bundle, tmp_path / "b.zip"), tmp_path, file)


@pytest.mark.parametrize("content", [b"", b"hello" * 100])
def test_what_is_no_bundle_is_refused(content: bytes, tmp_path: Path) -> None:
    refused(written(content, tmp_path / "b.zip"), tmp_path, "not a bundle")


def refused(bundle: Path, tmp_path: Path, problem: str) -> None:
    """One clear line, exit code 2, and nothing anywhere."""
    before = set(tmp_path.rglob("*"))
    said = command("import", bundle.name, "--runs", "other", cwd=tmp_path)
    assert said.returncode == 2, said
    assert problem in said.stderr
    assert said.stderr.count("\n") == 1
    new = {path.name for path in set(tmp_path.rglob("*")) - before}
    assert new <= {"other", ".adding.lock"}


# --- the commands --------------------------------------------------------------------------------


def test_a_run_is_sent_added_and_verified(tmp_path: Path) -> None:
    command(*TINY, cwd=tmp_path)
    assert command("bundle", "-o", "b.zip", "--weights", cwd=tmp_path).returncode == 0
    said = command("import", "b.zip", "--runs", "other", cwd=tmp_path)
    assert "Imported 1 of 1 runs" in said.stdout
    name = next((tmp_path / "runs").glob("blobs*")).name
    for runs in ("runs", "other"):
        said = command("verify", name, "--runs", runs, "-q", cwd=tmp_path)
        assert said.returncode == 0, said
        assert "repeats bit for bit: events.jsonl, results.json, model.safetensors" in said.stdout
        assert not (tmp_path / runs / ".verify").exists()

    results = tmp_path / "other" / name / "events.jsonl"
    (results.parent / "manifest.json").unlink()  # which would tell that the file was changed
    results.write_text(results.read_text().replace(": ", ":"))  # the same, spelled otherwise
    said = command("verify", name, "--runs", "other", "-q", cwd=tmp_path)
    assert said.returncode == 0, said
    results.write_text(results.read_text().replace(":", ": "))
    results.write_text(results.read_text().replace('"epoch": 0', '"epoch": 1', 1))
    said = command("verify", name, "--runs", "other", "-q", cwd=tmp_path)
    assert said.returncode == 1
    assert "does not repeat: event 1, epoch_end, epoch: 1 and 0" in said.stdout


def test_a_foreign_run_executes_no_code(tmp_path: Path) -> None:
    """Its config may name code; neither adding, listing nor verifying it imports that."""
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')\n")
    settings = {"scenario": {"name": "blobs"}, "net": {"name": "evil.py:make", "options": {}}}
    folder = make_run(tmp_path / "mine", "er", 0, 60.0, settings=settings, label=KEY)
    (folder / "events.jsonl").write_bytes(b"")
    written(pack([folder]), tmp_path / "b.zip")
    assert command("import", "b.zip", cwd=tmp_path).returncode == 0
    assert "finished, from b.zip" in command("runs", cwd=tmp_path).stdout
    said = command("verify", folder.name, cwd=tmp_path)
    assert said.returncode == 2
    assert "not executed without your consent" in said.stderr


def test_two_processes_may_add_at_once(made: Path, tmp_path: Path) -> None:
    """Each checks a copy of its own; one of them is first."""
    bundle = written(pack([made]), tmp_path / "all.zip")
    with ThreadPoolExecutor(4) as pool:
        several = list(pool.map(lambda _: add(bundle, tmp_path / "theirs"), range(8)))
    told = sorted(one.status for found in several for one in found)
    assert told == ["added"] + ["there already"] * 7
    assert [path.name for path in (tmp_path / "theirs").glob("[!.]*")] == [made.name]
