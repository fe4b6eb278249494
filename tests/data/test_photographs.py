"""Photographs as people have them: every kind of file, broken ones, copies and slips in names."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from linsep.data.cache import Treatment, prepared
from linsep.data.decoding import read_image
from linsep.data.images import DuplicateWarning
from linsep.data.listings import folder, list_folder, table
from linsep.data.reading import UnreadableWarning
from linsep.data.scenarios import open_scenario
from linsep.errors import DataError
from linsep.settings.sections import Scenario
from tests.helpers.command import command
from tests.helpers.made_data import noise, write_folder, write_image

COLOUR = Image.fromarray(np.repeat(np.repeat(noise(0, 4, 4, 3), 8, 0), 8, 1))


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jpg", "a.webp", "a.png", "a.bmp", "a.ppm", "cmyk.jpg"])
def test_every_kind_of_file_is_nearly_the_same_picture(tmp_path: Path, name: str) -> None:
    picture = COLOUR.convert("CMYK") if name == "cmyk.jpg" else COLOUR
    picture.save(tmp_path / name, quality=95)
    found = read_image(tmp_path / name).astype(float)
    assert found.shape == (3, 32, 32)
    assert abs(found - np.asarray(COLOUR).transpose(2, 0, 1)).mean() < 12


@pytest.mark.parametrize("name", ["a.png", "a.pgm"])
def test_of_16_bits_the_upper_8_are_read(tmp_path: Path, name: str) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 16, (6, 5), dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / name)
    found = read_image(tmp_path / name, channels=1)[0]
    assert np.array_equal(found, (values >> 8).astype(np.uint8))
    assert read_image(tmp_path / name).shape == (3, 6, 5)


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.png"])
def test_of_animated_files_the_first_frame_is_read(tmp_path: Path, name: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ((250, 0, 0), (0, 250, 0))]
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
    with pytest.warns(UserWarning, match="of animated images, the first frame is read"):
        found = read_image(tmp_path / name)
    assert found[0].min() > 240
    assert found[1].max() < 10


# --- broken files --------------------------------------------------------------------------------


def broken(tmp_path: Path) -> Path:
    """Four training images of each class; one is cut off, one is no image, one is plainly black."""
    root = write_folder(tmp_path / "photos", count=4)
    cut = root / "train" / "ant" / "0.png"
    cut.write_bytes(cut.read_bytes()[:200])
    (root / "train" / "bee" / "3.png").write_text("moved to the archive")
    Image.new("RGB", (12, 12)).save(root / "train" / "bee" / "2.png")
    return root


def test_broken_files_are_named_and_refused_or_skipped(tmp_path: Path) -> None:
    root = broken(tmp_path)
    with pytest.raises(DataError, match=r"0\.png cannot be read .*scenario.skip_unreadable=true"):
        folder(root)
    for _ in range(2):  # decoded, and from the cache
        with pytest.warns(
            UnreadableWarning, match=r"skipped.*: train/ant/0\.png, train/bee/3\.png"
        ):
            data = folder(root, skip_unreadable=True)
        assert data.train.y.tolist() == [0, 0, 0, 1, 1, 1]
        assert data.test.y.tolist() == [0] * 4 + [1] * 4
        assert not data.train.pixels()[5].any()  # a black image is an image
        listing = list_folder(root)
        want = np.stack([read_image(file.path) for file in listing.test])
        assert np.array_equal(data.test.pixels().numpy(), want)


def test_a_class_or_a_set_without_one_readable_image_is_refused(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "photos", count=1)
    (root / "train" / "ant" / "0.png").write_text("")
    wanted = Scenario(name="folder", data=str(root), per_task=1, options={"skip_unreadable": True})
    with (
        pytest.warns(UnreadableWarning),
        pytest.raises(DataError, match="class 'ant' has no training image"),
    ):
        open_scenario(wanted)
    for file in root.rglob("*.png"):
        file.write_text("")
    with pytest.raises(DataError, match="none of the 4 images can be read"):
        prepared(list_folder(root), Treatment(skip=True))


@pytest.mark.filterwarnings("default")
def test_commands_skip_what_cannot_be_read(tmp_path: Path) -> None:
    broken(tmp_path)
    words = ("data", "prepare", "folder", "--data", "photos")
    refused = command(*words, cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    done = command(*words, "--skip-unreadable", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "6 training and 8 test images" in done.stdout
    assert "train/ant/0.png, train/bee/3.png" in done.stderr
    shutil.copy(tmp_path / "photos/train/ant/1.png", tmp_path / "photos/train/ant/copy.png")
    lesson = ("learn", "model", "photos", "--net", "mlp", "--epochs", "1", "--method", "ft", "-q")
    assert command(*lesson, cwd=tmp_path).returncode == 2
    done = command(*lesson, "--skip-unreadable", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0.png" in done.stderr
    assert "1 images occur more than once" in done.stderr


# --- copies and names ----------------------------------------------------------------------------


def test_copies_between_training_and_test_are_named(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "d")
    shutil.copy(root / "train" / "ant" / "1.png", root / "test" / "bee" / "x.png")
    told = r"1 test images are also training images, such as test/bee/x\.png \(train/ant/1\.png\)"
    with pytest.warns(DuplicateWarning, match=told):
        folder(root)


def test_classes_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    for i, name in enumerate(("Ant", "ant", "bee")):
        for k in range(2):
            write_image(tmp_path / "d" / name / f"{k}.png", 2 * i + k)
    lines = [f"d/{name}/{k}.png,{name}" for name in ("Ant", "ant", "bee") for k in range(2)]
    (tmp_path / "t.csv").write_text("file,label\n" + "\n".join(lines))
    told = "the classes 'Ant' and 'ant' differ only in case; rename one"
    for read, path in ((folder, tmp_path / "d"), (table, tmp_path / "t.csv")):
        with pytest.raises(DataError, match=told):
            read(path)
    for given in ("d", "t.csv"):
        done = command("learn", "model", given, "--net", "mlp", cwd=tmp_path)
        assert done.returncode == 2
        assert told in done.stderr


# --- groceries -----------------------------------------------------------------------------------


@pytest.mark.parametrize("original", [True, False])
def test_groceries_in_both_layouts(tmp_path: Path, original: bool) -> None:
    root = tmp_path / ("GroceryStoreDataset/dataset" if original else "grocery")
    for p, part in enumerate(("train", "test", "val")):
        for c in range(81):
            inner = f"{part}/{'Fruit/Apple/' if original and c % 2 else ''}Product-{c:02}"
            write_image(root / inner / "a.jpg", 100 * p + c, (20, 16))
    opened = open_scenario(Scenario(name="grocery", data=str(tmp_path)))
    assert [len(task.classes) for task in opened.scenario.tasks] == [9] * 9
    assert opened.scenario.names == tuple(f"Product-{c:02}" for c in range(81))
    assert opened.scenario.shape == (3, 224, 224)
    write_image(root / "test" / "Unknown" / "a.jpg", 1)
    with pytest.raises(DataError, match=r"Unknown.*no training folder"):
        open_scenario(Scenario(name="grocery", data=str(tmp_path)))
    with pytest.raises(DataError, match="clone https://github"):
        open_scenario(Scenario(name="grocery", data=str(tmp_path / "nowhere")))
