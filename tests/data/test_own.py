"""Images of the user's own, in folders and tables: what is read, and what a mistake is told."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import linsep
from linsep.data.scenarios import fingerprint
from linsep.data.sources.listings import folder, list_folder, table
from linsep.errors import ConfigError, DataError
from tests.helpers.made_data import noise, write_folder, write_image


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))


def test_folder_with_its_own_test_images(tmp_path: Path) -> None:
    data = folder(write_folder(tmp_path / "d", ("train", "val")))
    assert data.names == ("ant", "bee")
    assert data.train.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.train.shape == (3, 12, 12)
    want = noise(110, 12, 12, 3).transpose(2, 0, 1)
    assert torch.equal(data.test.pixels()[3], torch.from_numpy(want.copy()))


def test_folder_split_by_share(tmp_path: Path) -> None:
    root = tmp_path / "d"
    for c, name in enumerate(("ant", "bee")):
        for i in range(10):
            write_image(root / name / f"{i}.png", 20 * c + i)
    (root / "ant" / "notes.txt").write_text("not an image")
    (root / "ant" / ".hidden.png").write_text("nor this")
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
    with pytest.raises(DataError, match=r"x\.png has 30x20 .*first image has 12x12; set `size`"):
        folder(root)
    data = folder(root, size=16, channels=1)
    assert data.train.shape == (1, 16, 16)


def _emptied(root: Path) -> None:
    shutil.rmtree(root / "train")
    (root / "train").mkdir()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: (p / "train" / "empty").mkdir(), "'empty' has no training image"),
        (lambda p: shutil.rmtree(p / "test" / "bee"), "'bee' has no test image"),
        (
            lambda p: write_image(p / "test" / "cat" / "0.png", 0),
            "cat: there is no training folder",
        ),
        (lambda p: shutil.rmtree(p), "is not a folder"),
        (_emptied, "no folders in it"),
        (lambda p: (p / "train" / "ant" / "0.png").write_bytes(b"GIF89a"), "0.png cannot be read"),
    ],
)
def test_wrong_folders_are_named(
    tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(write_folder(tmp_path / "d"))
    with pytest.raises(DataError, match=message):
        folder(tmp_path / "d")


def test_folder_class_without_an_image_or_with_one(tmp_path: Path) -> None:
    write_image(tmp_path / "d" / "ant" / "0.png", 0)
    (tmp_path / "d" / "bee").mkdir()
    with pytest.raises(DataError, match="'ant' has one image"):
        folder(tmp_path / "d")
    write_image(tmp_path / "d" / "ant" / "1.png", 1)
    with pytest.raises(DataError, match="class 'bee' has no training image"):
        folder(tmp_path / "d")


def write_table(root: Path, text: str, count: int = 12) -> Path:
    for i in range(count):
        write_image(root / "im" / f"{i}.png", i)
    (root / "t.csv").write_text(text)
    return root / "t.csv"


def test_table_with_tasks_and_splits(tmp_path: Path) -> None:
    lines = [
        f"im/{i}.png,{'ab'[i % 2]},{10 if i < 6 else 9},{'test' if i in (0, 3, 8, 11) else 'train'}"
        for i in range(12)
    ]
    found = table(write_table(tmp_path, "file,label,task,split\n" + "\n".join(lines) + "\n"))
    assert found.names == ("a", "b")
    assert found.tasks is not None
    assert found.tasks.names == ("9", "10")
    assert found.tasks.train.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert found.tasks.test.tolist() == [1, 1, 0, 0]
    assert found.test.y.tolist() == [0, 1, 0, 1]


def test_table_split_by_share_keeps_every_task(tmp_path: Path) -> None:
    lines = [f"im/{i}.png,{i // 4},{'late' if i < 4 else 'early'}" for i in range(12)]
    found = table(write_table(tmp_path, "file,label,task\n" + "\n".join(lines)), test_share=0.25)
    assert found.tasks is not None
    assert found.tasks.names == ("late", "early")
    assert found.test.y.tolist() == [0, 1, 2]
    assert found.tasks.test.tolist() == [0, 1, 1]


@pytest.mark.parametrize("given", [{"order": "shuffled"}, {"per_task": 1}, {"per_class": 2}])
def test_a_table_s_tasks_are_not_overridden_in_silence(
    given: dict[str, Any], tmp_path: Path
) -> None:
    lines = [f"im/{i}.png,{'ab'[i % 2]},{i // 6},{'test' if i % 3 else 'train'}" for i in range(12)]
    place = write_table(tmp_path, "file,label,task,split\n" + "\n".join(lines) + "\n")
    config = linsep.Config(scenario={"name": "table", "data": str(place), **given}, method="ft")
    with pytest.raises(ConfigError, match=f"scenario.{next(iter(given))}: the data name the task"):
        linsep.build(config)


def test_table_without_tasks(tmp_path: Path) -> None:
    lines = [f"im/{i}.png,{10 - i % 3}" for i in range(12)]
    found = table(write_table(tmp_path, "file,label\n" + "\n".join(lines)))
    assert found.names == ("8", "9", "10")
    assert found.tasks is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column 'file'; its columns, separated by commas, are: none"),
        ("file,label\n", "has a header and no lines"),
        ("file\nim/0.png\n", "no column 'label'"),
        ("file,lable\nim/0.png,a\n", "no column 'label'.*file, lable.*scenario.label=lable"),
        ("file,label\nim/0.png,a\nim/77.png,a\n", "line 3: there is no file"),
        ("file,label\nim/0.png,\n", "line 2: 'label' is empty"),
        ("file,label\nim/0.png\n", "line 2 does not have as many fields"),
        ("file,label\nim/0.png,a,b\n", "line 2 does not have as many fields"),
        ("file,label,split\nim/0.png,a,dev\n", "split is 'dev'; should be train or test"),
        (
            "file,label,split\nim/0.png,a,train\nim/1.png,b,test\n",
            "class 'b' has no training image",
        ),
    ],
)
def test_wrong_tables_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        table(write_table(tmp_path, text))


LINES = [
    f"{i % 2},im/{i}.png,{'ab'[i % 3 == 0]},,{'train' if i > 3 else 'test'}" for i in range(12)
]


def test_columns_of_a_table_may_be_called_otherwise_and_be_more(tmp_path: Path) -> None:
    """The same data as with the usual names; a further column may even be empty."""
    usual = "task,file,label,,split\n" + "\n".join(LINES)
    other = "month,photo,class,note,part\n" + "\n".join(LINES)
    one = table(write_table(tmp_path / "one", usual))
    path = write_table(tmp_path / "two", other)
    two = table(path, task="month", file="photo", label="class", split="part")
    assert fingerprint(one) == fingerprint(two)
    assert one.tasks is not None
    bare = table(write_table(tmp_path / "three", usual), task="", split="")
    assert bare.tasks is None
    assert len(bare.train) + len(bare.test) == 12


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            {"label": "kind"},
            r"no column 'kind'; .* are: file, label, day\. .*scenario.label=COLUMN",
        ),
        ({"task": "days"}, r"no column 'days'; .* file, label, day\. .*scenario.task=day$"),
        ({"file": ""}, "no column ''"),
    ],
)
def test_a_column_that_was_named_must_be_there(
    tmp_path: Path, names: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        table(write_table(tmp_path, "file,label,day\nim/0.png,a,1\n"), **names)


def test_a_misspelt_column_is_not_ignored_in_silence(tmp_path: Path) -> None:
    lines = [f"im/{i}.png,{'ab'[i % 2]},{i % 3}" for i in range(12)]
    path = write_table(tmp_path, "file,label,tsak\n" + "\n".join(lines))
    with pytest.warns(UserWarning, match="'tsak' is ignored; did you mean 'task'"):
        table(path)


def test_table_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"file,label\n\xff\xfe\x00,\x80\n")
    with pytest.raises(DataError, match="cannot be read as a table"):
        table(tmp_path / "t.csv")
