"""Image files of one's own, in folders and tables: what is read, and what a mistake is told."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import linsep
from linsep.data.decoding import MOST_PIXELS, read_image
from linsep.data.listings import folder, list_folder, table
from linsep.data.registry import SOURCES
from linsep.data.scenarios import fingerprint, open_scenario
from linsep.errors import ConfigError, DataError, LinsepError
from linsep.settings import layers, sections
from linsep.settings.signature import validate
from linsep.storage import files
from tests.helpers.made_data import noise, write_folder, write_image


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


# --- images --------------------------------------------------------------------------------------


def test_shorter_side_and_square_in_the_middle(tmp_path: Path) -> None:
    """Side by side with the same done on the array: a 2:1 picture keeps its middle."""
    array = noise(0, 20, 40, 3)
    Image.fromarray(array).save(tmp_path / "a.png")
    want = array[:, 10:30].transpose(2, 0, 1)
    assert np.array_equal(read_image(tmp_path / "a.png", side=20), want)
    assert np.array_equal(read_image((tmp_path / "a.png").read_bytes(), side=20), want)
    assert read_image(tmp_path / "a.png", side=7, channels=1).shape == (1, 7, 7)


def test_photographs_are_turned_only_where_asked(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # held on its side
    Image.fromarray(noise(0, 10, 20, 3)).save(tmp_path / "a.jpg", exif=exif)
    assert read_image(tmp_path / "a.jpg").shape == (3, 10, 20)
    assert read_image(tmp_path / "a.jpg", upright=True).shape == (3, 20, 10)


def test_image_bombs_are_not_decoded(tmp_path: Path) -> None:
    side = int(MOST_PIXELS**0.5) + 100
    for name, length in (("bomb", side), ("larger", 20_000)):  # beyond Pillow's own limit
        Image.new("1", (length, length)).save(tmp_path / f"{name}.png")
        with pytest.raises(DataError, match=rf"{name}\.png"):
            read_image(tmp_path / f"{name}.png")


def test_nothing_is_resized_beyond_the_limit(tmp_path: Path) -> None:
    """Of 1x20000 pixels, a shorter side of 224 makes a thousand million."""
    Image.new("RGB", (1, 20_000)).save(tmp_path / "thin.png")
    with pytest.raises(DataError, match=r"thin\.png, resized, has .*4480000.* pixels; at most"):
        read_image(tmp_path / "thin.png", side=224)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".gif", ".webp"])
def test_broken_images_are_named(tmp_path: Path, suffix: str) -> None:
    path = write_image(tmp_path / f"broken{suffix}", 0, (40, 40))
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:20], whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(DataError, match="broken"):
            read_image(path)


def test_other_formats_and_depths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "script.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    with pytest.raises(DataError, match=r"script\.png"):
        read_image(tmp_path / "script.png")
    with pytest.raises(DataError, match="more than 16 bits"):
        read_image(Image.fromarray(np.zeros((4, 4), np.float32)))


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    """As an image, data, a table, arrays, a configuration or a file of a run."""
    pipes = [tmp_path / f"d/{name}" for name in ("ant/a.png", "t.csv", "a.npz", "c.toml")]
    (tmp_path / "d" / "ant").mkdir(parents=True)
    for pipe in pipes:
        os.mkfifo(pipe)
    for place in (*pipes, Path("/dev/zero")):
        for name in ("table", "arrays", "folder", "split-cifar10"):
            one_line(name, place, per_task=1)
        for read in (read_image, layers.read, files.read):
            with pytest.raises(LinsepError, match=r"not a regular file|neither a file"):
                read(place)
    write_image(tmp_path / "d" / "ant" / "0.png", 0)
    write_image(tmp_path / "d" / "ant" / "1.png", 0)
    assert "a.png" in one_line("folder", tmp_path / "d", per_task=1)


# --- folders -------------------------------------------------------------------------------------


def test_folder_split_by_share(tmp_path: Path) -> None:
    root = tmp_path / "d"
    for c, name in enumerate(("ant", "bee")):
        for i in range(10):
            write_image(root / name / f"{i}.png", 20 * c + i)
    (root / "ant" / "notes.txt").write_text("not an image")
    (root / "ant" / "._0.png").write_text("nor this")
    data = folder(root, test_share=0.3)
    assert (len(data.train), len(data.test)) == (14, 6)
    assert data.test.y.bincount().tolist() == [3, 3]
    again, other = list_folder(root, 0.3), list_folder(root, 0.3, seed=1)
    assert again == list_folder(root, 0.3)
    assert again.test != other.test
    shutil.rmtree(root / "bee")
    write_image(root / "wasp" / "0.png", 50)
    write_image(root / "wasp" / "1.png", 51)
    ants = [f.path for f in list_folder(root, 0.3).test if f.label == 0]
    assert ants == [f.path for f in again.test if f.label == 0]


def test_folder_sizes(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "d")
    write_image(root / "train" / "bee" / "x.png", 7, (30, 20))
    with pytest.raises(DataError, match=r"x\.png has 30x20 .*first .* 12x12; set `image_size`"):
        folder(root)
    assert folder(root, image_size=16, channels=1).train.shape == (1, 16, 16)


def _emptied(root: Path) -> None:
    shutil.rmtree(root / "train")
    (root / "train").mkdir()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: (p / "train" / "empty").mkdir(), "'empty' has no training image"),
        (lambda p: shutil.rmtree(p / "test" / "bee"), "'bee' has no test image"),
        (lambda p: write_image(p / "test" / "cat" / "0.png", 0), "cat: there is no training"),
        (lambda p: shutil.rmtree(p), "is not a folder"),
        (lambda p: shutil.rmtree(p / "test"), "'ant' has one image"),
        (_emptied, "no folders in it"),
        (lambda p: (p / "train" / "ant" / "0.png").write_bytes(b"GIF89a"), "0.png cannot be read"),
    ],
)
def test_wrong_folders_are_named(
    tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(write_folder(tmp_path / "d", count=1))
    with pytest.raises(DataError, match=message):
        folder(tmp_path / "d")


def test_names_on_disk_that_are_not_utf8(tmp_path: Path) -> None:
    """A file may be called anything; a class goes into results, so it must be text."""
    for i in range(4):
        write_image(tmp_path / "d" / "ab"[i % 2] / f"\udcfe{i}.png", i)
    assert len(folder(tmp_path / "d").train) == 2
    (tmp_path / "d" / "b").rename(tmp_path / "d" / "\udcff")
    assert "'\\udcff' is not UTF-8" in one_line("folder", tmp_path / "d", per_task=1)


@pytest.mark.parametrize("place", ["~nobody/x", "\0", "x" * 5000, "\udcff", "/proc/self/mem", ":"])
@pytest.mark.parametrize("name", ["folder", "table", "arrays", "code", "split-cifar10"])
def test_places_where_no_data_can_be(name: str, place: str) -> None:
    assert name in SOURCES
    one_line(name, Path(place), per_task=1)


# --- tables --------------------------------------------------------------------------------------


def write_table(root: Path, text: str, count: int = 12) -> Path:
    for i in range(count):
        write_image(root / "im" / f"{i}.png", i)
    (root / "t.csv").write_text(text, encoding="utf-8")
    return root / "t.csv"


def test_table_with_tasks_and_splits(tmp_path: Path) -> None:
    lines = [
        f"im/{i}.png,{'ab'[i % 2]},{10 if i < 6 else 9},{'test' if i in (0, 3, 8, 11) else 'train'}"
        for i in range(12)
    ]
    path = write_table(tmp_path, "file,label,task,split\n" + "\n".join(lines) + "\n")
    found = table(path)
    assert found.names == ("a", "b")
    assert found.tasks is not None
    assert found.tasks.names == ("9", "10")
    assert found.tasks.train.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert found.tasks.test.tolist() == [1, 1, 0, 0]
    assert found.test.y.tolist() == [0, 1, 0, 1]
    for given in ({"order": "shuffled"}, {"per_task": 1}):  # would override them
        config = linsep.Config(scenario={"name": "table", "data": str(path), **given}, method="ft")
        with pytest.raises(ConfigError, match=f"scenario.{next(iter(given))}: the data already"):
            linsep.build(config)


def test_table_split_by_share_keeps_every_task(tmp_path: Path) -> None:
    lines = [f"im/{i}.png,{i // 4},{'late' if i < 4 else 'early'}" for i in range(12)]
    found = table(write_table(tmp_path, "file,label,task\n" + "\n".join(lines)), test_share=0.25)
    assert found.tasks is not None
    assert found.tasks.names == ("late", "early")
    assert found.test.y.tolist() == [0, 1, 2]
    assert found.tasks.test.tolist() == [0, 1, 1]


def test_labels_are_ordered_by_number_and_may_be_any_text(tmp_path: Path) -> None:
    """Digits too many for a number, and superscripts, are words."""
    for labels, names in (
        (["10", "9", "8"], ("8", "9", "10")),
        (["9" * 5000, "1"], ("1", "9" * 5000)),
        (["²", "1"], ("1", "²")),
    ):
        lines = [f"im/{i}.png,{labels[i % len(labels)]}" for i in range(12)]
        found = table(write_table(tmp_path, "file,label\n" + "\n".join(lines)))
        assert found.names == names
        assert found.tasks is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column 'file'; its columns, separated by commas, are: none"),
        ("file,label\n", "has a header but no rows"),
        ("file,lable\nim/0.png,a\n", "no column 'label'.*file, lable.*scenario.label=lable"),
        ("file,label\nim/0.png,a\nim/77.png,a\n", "line 3: there is no file"),
        ("file,label\nim/0.png,\n", "line 2: 'label' is empty"),
        ("file,label\nim/0.png\n", "line 2 does not have as many fields"),
        ("file,label\nim/0.png,a,b\n", "line 2 does not have as many fields"),
        ("file,label,split\nim/0.png,a,dev\n", "split is 'dev'; should be train or test"),
        ("file,label,split\nim/0.png,a,train\nim/1.png,b,test\n", "'b' has no training image"),
        ("file,file,label\na,b,c\n", "column 'file' twice"),
        (f"file,label\n{'x' * 5000},a\n", "File name too long"),
        ("file,label\n\0,a\n", "there is no file|line contains NUL"),
        ('file,label\n"a,b\n', "unexpected end of data"),
        (f"file,label\n{'x' * 200_000},a\n", "field larger than field limit"),
        ("file;label\na;b\n", "separated by commas, are: file;label"),
    ],
)
def test_wrong_tables_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        table(write_table(tmp_path, text, 2))


def test_columns_of_a_table_may_be_called_otherwise_and_be_more(tmp_path: Path) -> None:
    """The same data as with the usual names; a further column may even be empty."""
    part = ["test"] * 4 + ["train"] * 8
    lines = [f"{i % 2},im/{i}.png,{'ab'[i % 3 == 0]},,{part[i]}" for i in range(12)]
    usual = "task,file,label,,split\n" + "\n".join(lines)
    other = "month,photo,class,note,part\n" + "\n".join(lines)
    one = table(write_table(tmp_path / "one", usual))
    path = write_table(tmp_path / "two", other)
    two = table(path, task="month", file="photo", label="class", split="part")
    assert fingerprint(one) == fingerprint(two)
    assert one.tasks is not None
    bare = table(write_table(tmp_path / "three", usual), task="", split="")
    assert bare.tasks is None
    assert len(bare.train) + len(bare.test) == 12


def test_a_misspelt_column_is_not_ignored_in_silence(tmp_path: Path) -> None:
    lines = [f"im/{i}.png,{'ab'[i % 2]},{i % 3}" for i in range(12)]
    path = write_table(tmp_path, "file,label,tsak\n" + "\n".join(lines))
    with pytest.warns(UserWarning, match="'tsak' is ignored; did you mean 'task'"):
        table(path)
