"""Images in every form that people have them in are the same rows; what is ambiguous is refused."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from linsep import IncrementalClassifier
from linsep.data.decoding import pixels, square
from linsep.data.objects import Form, InputError, read
from linsep.errors import DataError

N, SIDE = 6, 10
LABELS = ["cat", "dog"] * 3


def colour(size: tuple[int, int] = (SIDE, SIDE), n: int = N) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (n, *size, 3), dtype=np.uint8)


def pictures() -> list[Image.Image]:
    return [Image.fromarray(x) for x in colour()]


def files(folder: Path) -> list[Path]:
    """Images in folders of their classes, in the order of their rows."""
    found = []
    for i, (picture, label) in enumerate(zip(pictures(), LABELS, strict=True)):
        (folder / label).mkdir(exist_ok=True)
        found.append(folder / label / f"{i}.png")
        picture.save(found[-1])
    return found


class Pairs(torch.utils.data.Dataset[Any]):
    def __init__(self, shown: list[Any]) -> None:
        self.eval_net = shown

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> Any:
        return self.eval_net[i], LABELS[i]


class Feature:
    names = ("cat", "dog")


class HuggingFace:
    """What a data set of Hugging Face looks like from outside."""

    features: dict[str, Any] = {"image": None, "label": Feature}  # noqa: RUF012

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns, self.column_names = columns, list(columns)

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]


FORMS: dict[str, Callable[[Path], Any]] = {
    "channels last": lambda _: colour(),
    "channels first": lambda _: colour().transpose(0, 3, 1, 2),
    "floats of 0 to 1": lambda _: colour() / 255,
    "float32 of 0 to 1": lambda _: (colour() / 255).astype(np.float32),
    "a tensor": lambda _: torch.from_numpy(colour()).permute(0, 3, 1, 2),
    "a float tensor": lambda _: torch.from_numpy(colour()).permute(0, 3, 1, 2) / 255,
    "pictures": lambda _: pictures(),
    "a tuple of pictures": lambda _: tuple(pictures()),
    "paths": files,
    "paths as text": lambda folder: [str(path) for path in files(folder)],
    "a list of arrays": lambda _: list(colour()),
    "a list of tensors": lambda _: [torch.from_numpy(x).permute(2, 0, 1) for x in colour()],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_rows(form: str, tmp_path: Path) -> None:
    given = read(FORMS[form](tmp_path), Form())
    assert given.rows.dtype == torch.uint8
    assert np.array_equal(given.rows.numpy(), colour().transpose(0, 3, 1, 2))
    assert given.labels is None


def test_sources_that_bring_their_labels(tmp_path: Path) -> None:
    files(tmp_path)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    folder = read(tmp_path, Form())
    assert folder.labels == sorted(LABELS)
    order = np.argsort(LABELS, kind="stable")
    assert np.array_equal(folder.rows.numpy(), colour()[order].transpose(0, 3, 1, 2))
    codes = [Feature.names.index(label) for label in LABELS]
    for given in (
        read(Pairs(pictures()), Form()),
        read(Pairs([torch.from_numpy(x).permute(2, 0, 1) for x in colour()]), Form()),
        read(HuggingFace({"image": pictures(), "label": codes}), Form()),
    ):
        assert given.labels is not None
        assert list(given.labels) == LABELS
        assert np.array_equal(given.rows.numpy(), colour().transpose(0, 3, 1, 2))


# --- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(SIDE, 20), (33, 12), (5, 5), (64, 48)])
def test_other_sizes_are_brought_to_the_classifiers(size: tuple[int, int], tmp_path: Path) -> None:
    one = colour(size, 1)[0]
    wanted = pixels(square(Image.fromarray(one), SIDE, "x"))
    Image.fromarray(one).save(tmp_path / "one.png")
    for form in (one[None], [Image.fromarray(one)], [tmp_path / "one.png"], [one]):
        given = read(form, Form(channels=3, side=SIDE))
        assert np.array_equal(given.rows[0].numpy(), wanted)


def test_sizes_that_differ() -> None:
    mixed = [Image.fromarray(colour(size, 1)[0]) for size in ((10, 10), (12, 9))]
    with pytest.raises(InputError, match=r"X\[1\] has 12x9 pixels .* 10x10; bring"):
        read(mixed, Form())
    assert read(mixed, Form(side=8)).rows.shape == (2, 3, 8, 8)
    clf = IncrementalClassifier("er", "cnn", memory=4, epochs=1, image_size=8)
    clf.fit(mixed * 4, ["a", "b"] * 4)
    assert clf.course_.shape == (3, 8, 8)
    assert clf.predict(mixed).shape == (2,)


def test_colours_and_greys() -> None:
    grey = colour()[..., 0]
    as_colour = read(grey, Form(channels=3)).rows
    assert np.array_equal(as_colour.numpy(), np.repeat(grey[:, None], 3, axis=1))
    with pytest.raises(InputError, match="has 3 channels where 1 are expected"):
        read(colour(), Form(channels=1))


# --- refused -------------------------------------------------------------------------------------


def test_what_can_be_read_in_two_ways_names_both() -> None:
    with pytest.raises(InputError, match="one image of 10x10 with 3 channels, or 10 grey images"):
        read(colour()[0], Form())
    with pytest.raises(InputError, match=r"channels first, images of 10x3, or channels last"):
        read(np.zeros((4, 3, 10, 3), np.uint8), Form())


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Image.fromarray(colour()[0]), "is one picture; give a list"),
        (np.zeros((4, 10, 10, 5), np.uint8), "must have 1 or 3 channels"),
        (np.zeros((4, 10, 10, 3)) + 300, "floats must be 0 to 1"),
        (np.full((4, 10, 10, 3), np.nan), "floats must be 0 to 1"),
        (np.zeros((4, 10, 10, 3), np.int64), "expected uint8"),
        (np.zeros((0, 10, 10, 3), np.uint8), "images of shape"),
        (np.zeros((4, 10, 10, 3, 1), np.uint8), "images of shape"),
        (np.zeros((4, 10, 10, 3), object), "pixels are object"),
        ("/no/such/folder", "is not a folder; expected"),
        (["/no/such/file.png"], "/no/such/file.png"),
        (HuggingFace({"picture": [], "label": []}), "there is no column 'image'; found"),
        ([Image.fromarray(colour()[0]), 7], r"X\[1\]"),
        ([Image.fromarray(colour()[0]), None], r"X\[1\]"),
        (7, "X"),
        (None, "X"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, str) else "",
)
def test_what_is_no_image_is_refused_in_one_line(given: Any, reason: str) -> None:
    with pytest.raises(DataError, match=reason) as caught:
        read(given, Form())
    assert "\n" not in str(caught.value)


def test_a_folder_with_train_and_test_is_read_as_such(tmp_path: Path) -> None:
    """Classes are those of train; the folder scenario knows the same layout."""
    for part in ("train", "val"):
        (tmp_path / part).mkdir()
        files(tmp_path / part)
    assert read(tmp_path, Form()).labels == sorted(LABELS)
    shutil.rmtree(tmp_path / "train")
    pictures()[0].save(tmp_path / "train.png")
    (tmp_path / "train").mkdir()  # a folder `train` with images right in it is a class
    (tmp_path / "train.png").rename(tmp_path / "train" / "0.png")
    assert set(read(tmp_path, Form()).labels or ()) == {"train", "val"}


def test_labels_that_are_given_twice_or_not_at_all(tmp_path: Path) -> None:
    files(tmp_path)
    clf = IncrementalClassifier("er", "mlp", memory=4, epochs=1)
    with pytest.raises(InputError, match="labels of their own; leave it out"):
        clf.fit(tmp_path, LABELS)
    with pytest.raises(InputError, match="y is missing"):
        clf.fit(colour())
