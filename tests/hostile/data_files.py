"""Images, labels and archives that are not what they should be."""

import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers.made_data import idx, noise, write_folder, write_image, write_tiny

from .badness import CONTENTS, PLACES
from .case import Case, Spoil, putting, writing

Arrays = dict[str, Any]
GOOD: Arrays = {
    "x_train": noise(0, 8, 6, 6, 3), "y_train": np.arange(8) % 2,
    "x_test": noise(1, 4, 6, 6, 3), "y_test": np.arange(4) % 2,
}  # fmt: skip
TYPES = (
    "?", "i1", "u2", ">u2", "i4", ">i8", "f2", "f4", ">f8", "g", "c8", "S3", "U3", "V4", "M8[s]",
    "m8[s]", "O", "u1,f4",
)  # fmt: skip
SHAPES: tuple[tuple[int, ...], ...] = (
    (), (0,), (1,), (8,), (8, 0), (8, 1), (8, 6, 6, 2), (8, 6, 6, 3, 1), (0, 6, 6, 3), (8, 0, 6, 3),
    (7, 6, 6, 3), (8, 1, 1), (4, 2),
)  # fmt: skip
FILLS = (np.nan, np.inf, -1.0, 256.0, 1e300)
TABLE = "file,label,task,split\n" + "".join(
    f"{part}/{name}/{i}.png,{name},{i % 2},{part}\n"
    for part in ("train", "test")
    for name in ("ant", "bee")
    for i in range(3)
)
IMAGE = "d/train/ant/0.png"


def kinds(stage: Path) -> dict[str, list[Case]]:
    """Cases by the kind of data; the good ones that they spoil are put on the stage."""
    write_folder(stage / "d")
    (stage / "d" / "t.csv").write_text(TABLE)
    write_tiny(stage / "tiny")
    np.savez(stage / "a.npz", **GOOD)
    (stage / "n").mkdir()
    for name, array in GOOD.items():
        np.save(stage / "n" / f"{name}.npy", array)
    return {
        "arrays": list(_arrays()),
        "array files": list(_files(stage, "a.npz", "arrays", "a.npz"))
        + list(_files(stage, "n/x_train.npy", "arrays", "n"))
        + list(_headers(stage)),
        "folders": list(_files(stage, IMAGE, "folder", "d")) + list(_folders()),
        "tables": list(_files(stage, "d/t.csv", "table", "d/t.csv")) + list(_tables()),
        "pickles": list(_pickles()),
        "idx": list(_idx()),
        "archives": list(_archives()),
        "tinyimagenet": [
            case
            for name in ("wnids.txt", "words.txt", "val/val_annotations.txt", "train", "val")
            for case in _files(stage, f"tiny/tiny-imagenet-200/{name}", "tinyimagenet", "tiny")
        ],
    }


def _commands(source: str, path: str) -> list[tuple[str, ...]]:
    data = ("--data", path)
    return [
        ("data", "check", source, *data),
        ("data", "prepare", source, *data),
        ("data", "show", source, *data, "-o", "x.png", "--per-task", "1"),
        ("run", "--scenario", source, *data, "--set", "scenario.per_task=1", "--method", "ft",
         "--net", "mlp", "--epochs", "1", "--set", "training.batch_size=4", "-q"),
    ]  # fmt: skip


def _spread(
    found: Iterator[tuple[str, Spoil]] | Sequence[tuple[str, Spoil]], source: str, path: str
) -> Iterator[Case]:
    """Each bad thing with the next of the commands that read data."""
    commands = _commands(source, path)
    for i, (name, spoil) in enumerate(found):
        words = commands[i % len(commands)]
        yield Case(f"{source} {name}: {words[0]} {words[1]}", words, spoil)


def _files(stage: Path, path: str, source: str, data: str) -> Iterator[Case]:
    whole = (stage / path).read_bytes() if (stage / path).is_file() else b"0" * 80
    found = [(f"{path} {name}", writing(path, make(whole))) for name, make in CONTENTS.items()]
    found += [(f"{path} {name}", putting(path, make)) for name, make in PLACES.items()]
    found += [
        (f"{path} cut at {n}", writing(path, whole[:n])) for n in range(1, min(len(whole), 200), 9)
    ]
    yield from _spread(found, source, data)
    for words in _commands(source, data):
        for denied in (path, str(Path(path).parent)):
            if denied != ".":
                yield Case(f"{source} {denied} unreadable: {words[:2]}", words, denied=denied)


def _arrays() -> Iterator[Case]:
    changed: list[tuple[str, Arrays]] = []
    for name, good in GOOD.items():
        changed.append((f"{name} missing", {k: v for k, v in GOOD.items() if k != name}))
        for kind in TYPES:
            with np.errstate(all="ignore"):
                made = np.zeros(good.shape, kind) if kind in ("O", "V4", "u1,f4") else None
                made = good.astype(kind) if made is None else made
            changed.append((f"{name} of {kind}", GOOD | {name: made}))
        for shape in SHAPES:
            changed.append((f"{name} of {shape}", GOOD | {name: np.zeros(shape, good.dtype)}))
        for fill in FILLS:
            changed.append((f"{name} of {fill}", GOOD | {name: np.full(good.shape, fill)}))
    for names in (["a"], ["a", "a"], [1, 2], [""] * 2, ["\x1b[31m", "b"], np.zeros(2), [None, "b"],
                  ["x" * 9000, "b"], ["a", "b", "c"], [["a"], ["b"]]):  # fmt: skip
        changed.append((f"names {str(names)[:20]}", GOOD | {"names": np.asarray(names)}))
    labels = np.arange(8)
    for y in (labels, labels * 10**15, labels.astype("u8") + 2**63, labels * 0, labels[::-1] - 4):
        changed.append((f"labels {y[:2]}", GOOD | {"y_train": y}))
    changed.append(("nothing", {}))
    for form in ("npz", "npy"):
        found = [(f"{n} as {form}", _saved(arrays, form)) for n, arrays in changed]
        yield from _spread(found, "arrays", "bad.npz" if form == "npz" else "bad")


def _saved(arrays: Arrays, form: str) -> Spoil:
    def spoil(room: Path) -> None:
        if form == "npz":
            np.savez(room / "bad.npz", **arrays)
            return
        (room / "bad").mkdir()
        for name, array in arrays.items():
            np.save(room / "bad" / f"{name}.npy", array)

    return spoil


def _headers(stage: Path) -> Iterator[Case]:
    """An .npy whose header lies, or is none."""
    whole = (stage / "n" / "x_train.npy").read_bytes()
    swaps = (
        (b"|u1", b"|u9"), (b"|u1", b"|O0"), (b"'descr'", b"'desc'' "), (b"(8, 6", b"(9, 6"),
        (b"(8, 6", b"(-8,6"), (b"(8, 6, 6, 3)", b"(99999999999)"), (b"False", b"None "),
        (b"{", b"["), (b"'shape'", b"'shapf'"), (b"(8, 6", b"(8e,6"), (b"(8, 6", b"((((("),
        (b"\x93NUMPY\x01", b"\x93NUMPY\x09"), (b"\x93NUMPY\x01", b"\x93NUMPY\x03"),
        (b"NUMPY\x01\x00v", b"NUMPY\x01\x00\xff"), (b"{", b"\xff"), (b"{'descr'", b"__import"),
    )  # fmt: skip
    for form, path in (("npy", "n/x_train.npy"), ("npz", "a.npz")):
        found = []
        for old, new in swaps:
            content = whole.replace(old, new, 1)
            if form == "npz":
                content = _zip({"x_train.npy": content})
            found.append((f"header {new!r} in {form}", writing(path, content)))
        yield from _spread(found, "arrays", "n" if form == "npy" else "a.npz")


def _folders() -> Iterator[Case]:
    def image(path: str, size: tuple[int, int], mode: str = "RGB") -> Spoil:
        return lambda room: write_image(room / path, 1, size, mode)

    def made(*paths: str) -> Spoil:
        def spoil(room: Path) -> None:
            for path in paths:
                (room / path).mkdir(parents=True)

        return spoil

    found: list[tuple[str, Spoil]] = [
        ("another size", image(IMAGE, (3, 5))),
        ("grey", image(IMAGE, (12, 12), "L")),
        ("one pixel", image(IMAGE, (1, 1))),
        ("an empty class", made("d/train/cat")),
        ("an empty test class", made("d/test/cat")),
        ("a folder for an image", made("d/train/ant/9.png")),
        ("a name that is not UTF-8", image("d/train/ant/\udcff.png", (12, 12))),
        ("a class that is not UTF-8", image("d/train/\udcff/0.png", (12, 12))),
        ("a class of escapes", image("d/train/\x1b[31m\n/0.png", (12, 12))),
        ("a text as an image", writing("d/train/ant/8.jpg", b"<svg></svg>")),
        ("a GIF without frames", writing("d/train/ant/8.gif", b"GIF89a\x01\0\x01\0\0\0\0;")),
        ("a claim of size", writing("d/train/ant/8.bmp", b"BM" + b"\xff" * 60)),
        ("a TIFF of nothing", writing("d/train/ant/8.tiff", b"II*\0\x08\0\0\0\xff\xff")),
    ]
    for name, make in PLACES.items():
        for path in ("d/train/ant", "d/train", "d", "d/test"):
            found.append((f"{path} {name}", putting(path, make)))
    for _ in range(2):  # with other commands the second time
        yield from _spread(found, "folder", "d")
        found.insert(0, ("a good folder", lambda room: None))


def _tables() -> Iterator[Case]:
    rows = TABLE.splitlines()
    texts = {
        "header alone": rows[0], "no header": "\n".join(rows[1:]), "one row": "\n".join(rows[:2]),
        "a column twice": TABLE.replace("task", "label", 1),
        "unknown column": TABLE.replace("task", "tusk", 1),
        "tabs": TABLE.replace(",", "\t"), "quotes": TABLE.replace("ant", '"ant', 1),
        "a quote inside": TABLE.replace("ant,", 'a"nt,'), "zeros": TABLE.replace("ant", "\0"),
        "too many": TABLE.replace("0,train", "0,train,x"), "too few": TABLE.replace(",train", ""),
        "no such split": TABLE.replace(",test\n", ",tset\n"), "no test": TABLE.replace("test", "x"),
        "only train": TABLE.replace(",test\n", ",train\n"),
        "only test": TABLE.replace(",train\n", ",test\n"),
        "empty labels": TABLE.replace(",ant,", ",,"), "one label": TABLE.replace(",bee,", ",ant,"),
        "a task without training": TABLE.replace(",1,train", ",0,train"),
        "a task without tests": TABLE.replace(",1,test", ",0,test"),
        "far away": TABLE.replace("train/ant/0.png", "../" * 99 + "etc/passwd"),
        "a folder": TABLE.replace("train/ant/0.png", "train/ant"),
        "long name": TABLE.replace("train/ant/0.png", "x" * 5000),
        "a NUL name": TABLE.replace("train/ant/0.png", "a\0b"),
        "huge field": TABLE.replace(",ant,", f",{'x' * 200_000},"),
        "escapes": TABLE.replace(",ant,", ",\x1b[31m,"), "superscript": TABLE.replace(",0,", ",²,"),
        "digits": TABLE.replace(",0,", f",{'9' * 5000},"), "minus": TABLE.replace(",0,", ",-1,"),
        "many tasks": TABLE.replace(",0,", ",0.5,"), "same file": TABLE.replace("1.png", "0.png"),
        "a carriage return": TABLE.replace("\n", "\r"), "surrogate": TABLE.replace("ant", "\u2028"),
    }  # fmt: skip
    found = [(n, writing("d/t.csv", text.encode())) for n, text in texts.items()]
    for words in _commands("table", "d/t.csv"):
        yield from (Case(f"table {n}: {words[:2]}", words, spoil) for n, spoil in found)


def _pickles() -> Iterator[Case]:
    good: dict[Any, Any] = {b"data": noise(0, 4, 3072), b"labels": [0, 1, 0, 1]}
    wrong: tuple[Any, ...] = (
        None, True, -1, 10**30, float("nan"), "x", b"\xff", [], {}, [[]], {"a": 1}, (), [None],
        np.zeros(0), np.zeros((4, 3072)), np.zeros((4, 3071), np.uint8), np.array("x"), range(3),
        np.zeros(4, "M8[s]"), Path("x"), [0, 1, 0, 99], [0, 1, -1, 0], [0, 1], ["a"] * 4, [1.5] * 4,
    )  # fmt: skip
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"]
    bad: list[tuple[str, Any]] = [(f"all {str(v)[:20]}", v) for v in wrong]
    for key in good:
        bad.append((f"{key} missing", {k: v for k, v in good.items() if k != key}))
        bad += [(f"{key} = {str(v)[:20]}", good | {key: v}) for v in wrong]

    def cifar(content: bytes, at: int) -> Spoil:
        def spoil(room: Path) -> None:
            (room / "c").mkdir()
            whole = [pickle.dumps(good, 2)] * 6 + [pickle.dumps({b"label_names": [b"a"] * 10}, 2)]
            for name, made in zip(names, [*whole[:at], content, *whole[at + 1 :]], strict=True):
                (room / "c" / name).write_bytes(made)

        return spoil

    found = [
        (name, cifar(pickle.dumps(value, i % 6), (0, 5, 6)[i % 3]))
        for i, (name, value) in enumerate(bad)
    ]
    whole = pickle.dumps(good, 2)
    found += [(f"{n} bytes", cifar(make(whole), 0)) for n, make in CONTENTS.items()]
    yield from _spread(found, "cifar10", "c")


def _idx() -> Iterator[Case]:
    files = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte",
             "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")  # fmt: skip
    good = [idx(noise(i, *shape)) for i, shape in enumerate(((4, 28, 28), (4,)) * 2)]
    ways: dict[str, Callable[[bytes], bytes]] = {
        **CONTENTS,
        "as it is": lambda whole: whole,
        "of floats": lambda whole: b"\0\0\x0d" + whole[3:],
        "many": lambda whole: whole[:4] + b"\xff" * 4 + whole[8:],
        "60000": lambda whole: whole[:4] + (60_000).to_bytes(4, "big") + whole[8:],
        "no header": lambda whole: whole[8:],
        "header alone": lambda whole: whole[:6],
        "gzip": lambda whole: b"\x1f\x8b\x08" + whole,
    }
    for source in ("mnist", "fashion-mnist"):
        found = []
        for end in ("", ".gz"):
            for i, (name, make) in enumerate(ways.items()):
                contents = [make(c) if k == i % 4 else c for k, c in enumerate(good)]
                places = [f"m/{file}{end}" for file in files]
                found.append((f"{name}{end}", _all(dict(zip(places, contents, strict=True)))))
        yield from _spread(found, source, "m")


def _all(contents: dict[str, bytes]) -> Spoil:
    def spoil(room: Path) -> None:
        for path, content in contents.items():
            writing(path, content)(room)

    return spoil


def _archives() -> Iterator[Case]:
    def tarred(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, link, 1 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"a"))
        return out.getvalue()

    inner = "cifar-10-batches-py/data_batch_1"
    tars = {name: make(tarred(inner)) for name, make in CONTENTS.items()}
    tars |= {
        "outside": tarred("../x"), "absolute": tarred("/tmp/x"), "other": tarred("other/x"),
        "link": tarred(inner, tarfile.SYMTYPE, "/etc/passwd"), "incomplete": tarred(inner),
        "pipe": tarred(inner, tarfile.FIFOTYPE), "long": tarred(f"{inner}/{'x' * 300}"),
        "not UTF-8": tarred("cifar-10-batches-py/\udcff"), "a zip": _zip({inner: b"a"}),
    }  # fmt: skip
    path = "z/cifar-10-python.tar.gz"
    found = [(f"archive {name}", writing(path, content)) for name, content in tars.items()]
    found += [(f"archive {name}", putting(path, make)) for name, make in PLACES.items()]
    yield from _spread(found, "cifar10", "z")
    inner = "tiny-imagenet-200/wnids.txt"
    zips = {name: make(_zip({inner: b"a"})) for name, make in CONTENTS.items()}
    zips |= {
        "outside": _zip({"../x": b"a"}), "absolute": _zip({"/tmp/x": b"a"}),
        "incomplete": _zip({inner: b"a"}), "other": _zip({"x/y": b"a"}), "a tar": tarred(inner),
        "both": _zip({inner: b"a", f"{inner}/x": b"a"}), "long": _zip({f"{inner}{'x' * 300}": b""}),
    }  # fmt: skip
    path = "z/tiny-imagenet-200.zip"
    found = [(f"archive {name}", writing(path, content)) for name, content in zips.items()]
    found += [(f"archive {name}", putting(path, make)) for name, make in PLACES.items()]
    yield from _spread(found, "tinyimagenet", "z")


def _zip(contents: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as zipped:
        for name, content in contents.items():
            zipped.writestr(name, content)
    return out.getvalue()
