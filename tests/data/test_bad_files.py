"""A user's own files with something wrong: each is refused in one line that names it."""

import contextlib
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linsep.data.registry import SOURCES
from linsep.data.scenarios import open_scenario
from linsep.data.sources.arrays import arrays
from linsep.data.sources.listings import folder, table
from linsep.errors import LinsepError
from linsep.settings import sections
from linsep.settings.signature import validate
from tests.helpers.made_data import noise, write_image


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))


def one_line(name: str, path: Path, **given: Any) -> str:
    """Open a scenario that cannot be, as a run would, and return what it reports."""
    given = {"name": name, "data": str(path)} | given
    with pytest.raises(LinsepError) as caught:
        open_scenario(validate(sections.Scenario, given, "scenario"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["S5", "U5", "V8", "M8[s]", "m8[s]", "c8", "?", "O", "i8", "u2"])
def test_arrays_of_the_wrong_kind(tmp_path: Path, kind: str) -> None:
    x, y = noise(0, 12, 6, 5, 3), np.arange(12) % 3
    wrong = np.zeros(x.shape, kind)
    np.savez(tmp_path / "a.npz", x=wrong, y=y)
    (tmp_path / "d").mkdir()
    np.save(tmp_path / "d" / "x.npy", wrong)
    np.save(tmp_path / "d" / "y.npy", y)
    for place in (tmp_path / "a.npz", tmp_path / "d"):
        assert str(place) in one_line("arrays", place, per_task=1)
    if kind not in ("S5", "U5", "?", "i8", "u2"):  # which labels may be
        np.savez(tmp_path / "a.npz", x=x, y=wrong[:, 0, 0, 0])
        assert "a.npz" in one_line("arrays", tmp_path / "a.npz", per_task=1)


@pytest.mark.parametrize("shape", [(), (0,), (12,), (0, 6, 5, 3), (12, 0, 5, 3), (12, 6, 5, 0)])
def test_arrays_of_the_wrong_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    for kind in ("u1", "f4"):
        np.savez(tmp_path / "a.npz", x=np.zeros(shape, kind), y=np.arange(12) % 3)
        assert str(shape) in one_line("arrays", tmp_path / "a.npz", per_task=1)


HEADERS = [
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (1,",
    b"(" * 3000,
    b"9" * 5000,
    b"'" * 50,
    b"\xff\xfe",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (-2, -6)}",
    b"{'descr': 'nonsense', 'fortran_order': False, 'shape': (2,)}",
    b"\n\n  indented\n badly",
]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (9, 9)])
def test_headers_of_arrays_that_are_nonsense(
    tmp_path: Path, header: bytes, version: tuple[int, int]
) -> None:
    size = struct.pack("<H" if version == (1, 0) else "<I", len(header))
    raw = b"\x93NUMPY" + bytes(version) + size + header + bytes(40)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as zipped:
        zipped.writestr("x.npy", raw)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.npy").write_bytes(raw)
    assert "a.npz cannot be read" in one_line("arrays", tmp_path / "a.npz")
    assert "x.npy cannot be read" in one_line("arrays", tmp_path / "d")


def test_arrays_with_flipped_bytes_are_read_or_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "good.npz", x=noise(0, 12, 4, 4), y=np.arange(12) % 3)
    whole = (tmp_path / "good.npz").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        raw = bytearray(whole)
        for place in rng.integers(0, len(raw), 4):
            raw[place] = rng.integers(256)
        (tmp_path / "a.npz").write_bytes(raw)
        with contextlib.suppress(LinsepError):
            arrays(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,file,label\na,b,c\n", "column 'file' twice"),
        (f"file,label\n{'x' * 5000},a\n", "File name too long"),
        ("file,label\n\0,a\n", "there is no file|line contains NUL"),
        ('file,label\n"a,b\n', "unexpected end of data"),
        (f"file,label\n{'x' * 200_000},a\n", "field larger than field limit"),
        ("file;label\na;b\n", "separated by commas, are: file;label"),
    ],
)
def test_odd_tables(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert re.search(message, one_line("table", tmp_path / "t.csv"))


def test_labels_of_a_table_may_be_any_text(tmp_path: Path) -> None:
    """Digits too many for a number, and superscripts, are words."""
    for i in range(4):
        write_image(tmp_path / f"{i}.png", i)
    for labels in (["9" * 5000, "1"], ["²", "1"]):
        lines = [f"{i}.png,{labels[i % 2]}" for i in range(4)]
        (tmp_path / "t.csv").write_text("\n".join(["file,label", *lines]), encoding="utf-8")
        assert set(table(tmp_path / "t.csv").names) == set(labels)


def test_names_on_disk_that_are_not_utf8(tmp_path: Path) -> None:
    """A file may be called anything; a class goes into results, so it must be text."""
    for i in range(4):
        write_image(tmp_path / "d" / "ab"[i % 2] / f"\udcfe{i}.png", i)
    assert len(folder(tmp_path / "d").train) == 2
    (tmp_path / "d" / "b").rename(tmp_path / "d" / "\udcff")
    assert "'\\udcff' is not UTF-8" in one_line("folder", tmp_path / "d", per_task=1)


@pytest.mark.parametrize("place", ["~nobody/x", "\0", "x" * 5000, "\udcff", "/proc/self/mem", ":"])
@pytest.mark.parametrize("name", sorted(SOURCES))
def test_places_where_no_data_can_be(name: str, place: str) -> None:
    one_line(name, Path(place), per_task=1)
