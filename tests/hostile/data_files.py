"""Images and labels of the user that are not what they should be."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers.made_data import noise, write_folder, write_image, write_tiny

from .badness import CONTENTS, PLACES
from .case import Case, Spoil, putting, writing
from .published import commands, spread, zipped

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
        "tinyimagenet": [
            case
            for name in ("wnids.txt", "words.txt", "val/val_annotations.txt", "train", "val")
            for case in _files(stage, f"tiny/tiny-imagenet-200/{name}", "tinyimagenet", "tiny")
        ],
    }


def _files(stage: Path, path: str, source: str, data: str) -> Iterator[Case]:
    whole = (stage / path).read_bytes() if (stage / path).is_file() else b"0" * 80
    found = [(f"{path} {name}", writing(path, make(whole))) for name, make in CONTENTS.items()]
    found += [(f"{path} {name}", putting(path, make)) for name, make in PLACES.items()]
    found += [
        (f"{path} cut at {n}", writing(path, whole[:n])) for n in range(1, min(len(whole), 200), 9)
    ]
    yield from spread(found, source, data)
    for words in commands(source, data):
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
        yield from spread(found, "arrays", "bad.npz" if form == "npz" else "bad")


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
                content = zipped({"x_train.npy": content})
            found.append((f"header {new!r} in {form}", writing(path, content)))
        yield from spread(found, "arrays", "n" if form == "npy" else "a.npz")


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
        yield from spread(found, "folder", "d")
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
    for words in commands("table", "d/t.csv"):
        yield from (Case(f"table {n}: {words[:2]}", words, spoil) for n, spoil in found)
