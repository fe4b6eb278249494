"""Bad input for the classifier and its commands: each is one clear line, and nothing is lost."""

import csv
import io
import json
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load, save

from linsep.classifier.estimator import IncrementalClassifier
from linsep.errors import LinsepError, StateError
from linsep.storage import files, manifest
from tests.helpers.command import command
from tests.helpers.made_data import noise, write_image
from tests.hostile.badness import CONTENTS, JSON, PLACES, changed, fields, without
from tests.hostile.case import clear

MAKING = ("--net", "cnn", "--epochs", "1", "--memory", "6", "--set", "net.width=4", "-q")
LONGEST = 510  # characters of a line


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned ant and bee, its copy without memory, and images."""
    room = tmp_path_factory.mktemp("stage")
    for c, name in enumerate(("ant", "bee")):
        for i in range(12):
            write_image(room / "january" / name / f"{i}.png", 20 * c + i)
    for i in range(4):
        write_image(room / "february" / "cow" / f"{i}.png", 70 + i)
    write_image(room / "one.png", 99)
    (room / "text.txt").write_text("hello")
    (room / "broken" / "ant").mkdir(parents=True)
    (room / "broken" / "ant" / "x.png").write_bytes(b"\x89PNG nonsense")
    (room / "list.csv").write_text("file,label\none.png,ant\n")
    said = command("learn", "model", "january", *MAKING, cwd=room)
    assert said.returncode == 0, said.stderr
    IncrementalClassifier.load(room / "model").save(room / "copy", memory=False)
    return room


@pytest.fixture
def room(stage: Path, tmp_path: Path) -> Path:
    shutil.copytree(stage, tmp_path / "room")
    return tmp_path / "room"


def write_csv(*rows: str) -> Callable[[Path], object]:
    return lambda room: (room / "list.csv").write_text("\n".join(rows) + "\n")


def interrupt(room: Path) -> None:
    note = {"key": "0" * 32, "about": "march", "begun": "today"}
    path = room / "model" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"lesson": note}))


def interrupt_the_first(room: Path) -> None:
    note = {"key": "0" * 32, "about": "march", "begun": "today"}
    (room / "copy" / "manifest.json").write_bytes(manifest.new(lesson=note).to_bytes())


def nothing(room: Path) -> None:
    pass


def wide(room: Path) -> None:
    Image.fromarray(noise(0, 1, 400_000)).save(room / "one.png")


# What is typed, what was done before it, and words of the answer.
COMMANDS: dict[str, tuple[tuple[str, ...], Callable[[Path], object], str]] = {
    "a file": (("learn", "model", "one.png"), nothing, "folder of class folders, or a CSV"),
    "a broken image": (("learn", "model", "broken"), nothing, "x.png cannot be read"),
    "another method": (
        ("learn", "model", "february", "--method", "er"), nothing, "--method: model",
    ),
    "classes of a grown model": (
        ("learn", "model", "february", "--classes", "ant,bee,cow"), nothing, "--classes: model",
    ),
    "no memory to replay from": (
        ("learn", "new", "january", "--memory", "0", "--method", "er"), nothing, "memory.size",
    ),
    "huge size": (("learn", "new", "january", "--image-size", "99999999"), nothing, "image_size"),
    "a model that is a file": (("learn", "text.txt", "january"), nothing, "cannot use text.txt"),
    "another lesson under way": (("learn", "model", "february"), interrupt, "add --discard"),
    "a copy without memory": (("learn", "copy", "february"), nothing, "--empty-memory"),
    "images of two sizes": (
        ("learn", "new", "january", *MAKING),
        lambda room: write_image(room / "january" / "ant" / "z.png", 1, (9, 9)),
        "make the model with image_size",
    ),
    "one image": (("learn", "new", "list.csv", *MAKING), nothing, "at least 2"),
    "an extreme ratio": (("learn", "model", "list.csv"), wide, "pixels; at most"),
    "a CSV with tasks": (
        ("learn", "model", "list.csv"), write_csv("file,label,task", "one.png,a,0", "one.png,b,1"),
        "a CSV for each lesson",
    ),
    "a CSV of tests": (
        ("learn", "model", "list.csv"), write_csv("file,label,split", "one.png,ant,test"),
        "test rows only",
    ),
    "a class name that is not UTF-8": (
        ("learn", "model", "february"),
        lambda room: (room / "february" / "cow").rename(room / "february" / "c\udcff"), "not UTF-8",
    ),
    "predict no file": (("predict", "model", "two.png"), nothing, "there is no image two.png"),
    "sure above 1": (("predict", "model", "one.png", "--unknown-below", "2"), nothing, "0 to 1"),
    "predict with tables": (
        ("predict", "table", "one.png"),
        lambda room: IncrementalClassifier("er", epochs=1, memory=4)
        .fit(np.arange(20.0).reshape(10, 2), [0, 1] * 5).save(room / "table"), "tables of numbers",
    ),
    "model of nothing": (("model", "nowhere"), nothing, "holds no model"),
    "a first lesson under way": (("model", "copy"), interrupt_the_first, "holds no model yet"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_bad_command_is_one_line(name: str, room: Path) -> None:
    words, spoil, expected = COMMANDS[name]
    spoil(room)
    before = contents(room)
    said = command(*words, cwd=room)
    assert said.returncode == 2, said.stdout
    if "Usage:" not in said.stderr:  # of typer, which draws a box
        (line,) = said.stderr.splitlines()
        assert line.startswith("error: ")
        assert line.isprintable()
        assert len(line) <= LONGEST
        assert expected in line or expected.capitalize() in line, line
    assert contents(room) == before


def contents(room: Path) -> dict[str, bytes]:
    every = (path for path in room.rglob("*") if path.is_file())
    return {str(p): p.read_bytes() for p in every if not p.name.startswith(".lock")}


def test_paths_from_standard_input(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Typed:
        buffer = io.BytesIO(b"one.png\n\njanuary/ant/1.png\n")

    monkeypatch.setattr("sys.stdin", Typed)
    said = command("predict", "model", "-", "--format", "csv", cwd=room)
    assert said.returncode == 0, said.stderr
    rows = list(csv.DictReader(io.StringIO(said.stdout)))
    assert [row["file"] for row in rows] == ["one.png", "january/ant/1.png"]
    assert {row["class"] for row in rows} <= {"ant", "bee"}
    assert all(0.5 <= float(row["probability"]) <= 1 for row in rows)


# --- in Python ------------------------------------------------------------------------------------

X, Y = noise(5, 12, 8, 8), ["ant", "bee"] * 6


# --- hostile folders ------------------------------------------------------------------------------

Tensors = dict[str, torch.Tensor]
WEIGHTS, MEMORY = "model.safetensors", "memory.safetensors"


def rewritten(name: str, change: Callable[[Tensors], object]) -> Callable[[Path], object]:
    """The file with other tensors, and a manifest that vouches for it."""

    def spoil(folder: Path) -> None:
        tensors = load((folder / name).read_bytes())
        change(tensors)
        replaced(name, save(tensors))(folder)

    return spoil


def replaced(name: str, content: bytes) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(content)
        told = json.loads((folder / "manifest.json").read_text())
        told["files"][name] = {"bytes": len(content), "digest": files.digest(content)}
        (folder / "manifest.json").write_text(json.dumps(told))

    return spoil


def told(*place: str | int, value: Any) -> Callable[[Path], object]:
    """Another value in what the manifest tells of the classifier."""
    return spoiled("classifier", *place, value=value)


def spoiled(*place: str | int, value: Any) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        found = json.loads((folder / "manifest.json").read_text())
        path = folder / "manifest.json"
        path.write_text(json.dumps(changed(found, place, value)))

    return spoil


def first(tensors: Tensors) -> str:
    return next(name for name in tensors if name.endswith("weight"))


def hole(folder: Path) -> None:
    with (folder / WEIGHTS).open("wb") as file:
        file.truncate(2**43)  # takes no space
    spoiled("files", WEIGHTS, "bytes", value=2**43)(folder)


def linked(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to("/dev/zero")


def moved(folder: Path) -> None:
    """A path in place of a file's name."""
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"memory.safetensors"', '"../../etc/passwd"'))


HEADER = json.dumps({"net.a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}})
SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit of the weights": (
        lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-1] + b"\0"), "damaged"),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), "No such file"),
    "a device": (linked, "not a regular file"),
    "a hole of 8 TB": (hole, "at most"),
    "a huge tensor": (
        replaced(WEIGHTS, len(HEADER).to_bytes(8, "little") + HEADER.encode()), "damaged"),
    "a deep header": (
        replaced(WEIGHTS, (10**6).to_bytes(8, "little") + b"[" * 10**6), "damaged"),
    "a pickle": (replaced(WEIGHTS, b"\x80\x04cos\nsystem\n(S'touch x'\ntR."), "damaged"),
    "a NaN": (rewritten(WEIGHTS, lambda t: t[first(t)].fill_(torch.nan)), "not finite"),
    "doubles": (
        rewritten(WEIGHTS, lambda t: t.update({first(t): t[first(t)].double()})), "float64"),
    "another shape": (
        rewritten(WEIGHTS, lambda t: t.update({first(t): t[first(t)][:1].clone()})), "should be"),
    "a tensor too few": (rewritten(WEIGHTS, lambda t: t.pop(first(t))), "is missing"),
    "classes that were not seen": (
        rewritten(WEIGHTS, lambda t: t["seen"].zero_()), "not what was learned"),
    "images of floats": (
        rewritten(MEMORY, lambda t: t.update({"memory.x": t["memory.x"].float()})), "float32"),
    "labels out of range": (
        rewritten(MEMORY, lambda t: t["memory.y"].fill_(99)), "not learned"),
    "an order with gaps": (
        rewritten(MEMORY, lambda t: t["memory.order"].fill_(0)), "each row once"),
    "a negative count": (
        rewritten(MEMORY, lambda t: t["memory.seen"].fill_(-7)), "-7 offered"),
    "logits of nan": (
        rewritten(MEMORY, lambda t: t["memory.logits"].fill_(torch.nan)), "not finite"),
    "a memory without labels": (rewritten(MEMORY, lambda t: t.pop("memory.y")), "needs"),
    "held-out images missing": (rewritten(MEMORY, lambda t: t.pop("tested.0.x")), "is missing"),
    "held out of another lesson": (
        rewritten(MEMORY, lambda t: t["tested.0.y"].fill_(7)), "another lesson"),
    "more rows than there is room for": (
        told("config", "memory", "size", value=1), "at most 1"),
    "room for a billion images": (
        told("config", "memory", "size", value=10**7), "out of proportion"),
    "a net of 4096 channels": (told("config", "net", "options", "width", value=4096), "should be"),
    "a path in place of a name": (moved, "files"),
    "more threads than there are": (
        told("config", "compute", "threads", value=10_000), "compute.threads"),
    "a method that does not exist": (told("config", "method", value="rm"), "unknown method"),
    "a file as a method": (told("config", "method", value="/tmp/x.py:run"), "without your consent"),
    "another format": (spoiled("format", value="x"), "format: should be 'linsep 1'"),
    "a deviation of 0": (told("augment", "std", value=[0.0] * 3), "augment.std"),
    "a huge image": (told("shape", value=[3, 10**7, 10**7]), "shape"),
    "a label twice": (told("labels", value=["ant", "ant"]), "distinct"),
    "a class too many": (told("history", 0, "groups", 0, "classes", value=["ant", "x"]), "among"),
    "an unknown parameter": (
        told("params", value={"test_share": 0.1, "device": "cpu", "shell": "rm"}), "params"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_a_hostile_folder_is_refused(name: str, room: Path) -> None:
    spoil, expected = SPOILED[name]
    spoil(room / "model")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB, the most so far
    with pytest.raises(StateError, match=expected) as found:
        IncrementalClassifier.load(room / "model")
    assert "\n" not in str(found.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    said = command("predict", "model", "one.png", cwd=room)
    assert said.returncode == 2
    assert len(said.stderr.splitlines()) == 1
    assert not (room / "x").exists()


def harmless(folder: Path) -> str:
    """What went wrong when a model was loaded and used; "" if it was refused or worked."""
    try:
        IncrementalClassifier.load(folder).predict(noise(0, 2, 12, 12, 3))
    except LinsepError as error:
        return "" if "\n" not in str(error) else f"several lines: {error}"
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return ""


def spoiled_fields(content: bytes) -> Iterator[tuple[str, bytes]]:
    whole = json.loads(content)
    values = list(JSON.items())
    for i, place in enumerate(fields(whole)):
        called = ".".join(map(str, place))
        if place:
            yield f"{called} missing", json.dumps(without(whole, place)).encode()
        for name, value in (values[i % len(values)], values[(3 * i + 1) % len(values)]):
            text = json.dumps(changed(whole, place, "MARK")).replace('"MARK"', value)
            yield f"{called} {name}", text.encode()
    yield from ((name, spoil(content)) for name, spoil in CONTENTS.items())


@pytest.mark.slow
def test_every_field_of_the_manifest_spoiled(room: Path) -> None:
    path = room / "model" / "manifest.json"
    content, wrong, count = path.read_bytes(), [], 0
    for name, spoiled in spoiled_fields(content):
        path.write_bytes(spoiled)
        count += 1
        if found := harmless(room / "model"):
            wrong.append(f"{name}: {found}")
    assert not wrong
    assert count > 300


@pytest.mark.parametrize("name", ["manifest.json", WEIGHTS, MEMORY])
def test_something_else_in_place_of_a_file(name: str, room: Path) -> None:
    path = room / "model" / name
    for kind, make in PLACES.items():
        clear(path)
        make(path)
        assert not harmless(room / "model"), kind
        with pytest.raises(StateError):
            IncrementalClassifier.load(room / "model")
