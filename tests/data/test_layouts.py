"""The public layouts, small: what is read, and what a wrong file is told."""

import gzip
import shutil
import tarfile
from collections.abc import Callable
from hashlib import md5, sha256
from pathlib import Path

import numpy as np
import pytest
import torch

from linsep.data import listings, standard
from linsep.data.cache import Treatment, prepared
from linsep.data.published import Published
from linsep.data.registry import SOURCES
from linsep.errors import DataError
from tests.helpers.made_data import (
    SMALL,
    idx,
    noise,
    write_cifar,
    write_image,
    write_pickle,
    write_tiny,
)

SHA256 = "9920d9d9da642f3b9646baed5d50d15028932e95008e11398cf635e67974a0e8"  # as documented


def published(name: str) -> Published:
    found = SOURCES[f"split-{name}"].published
    assert found is not None
    return found


MNIST, IMAGENET100 = published("mnist"), published("imagenet100")
DIGITS = MNIST._replace(counts=((2, 1), (1, 1)), names=("0", "1"))


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))


def test_cifar_from_its_folder_its_parent_and_its_archive(tmp_path: Path) -> None:
    place = write_cifar(tmp_path / "a")
    data = standard.cifar(tmp_path / "a", SMALL)
    assert data.names == ("cat", "dog")
    assert data.train.shape == (3, 32, 32)
    assert data.train.y.tolist() == [0, 1] * 4
    want = np.concatenate([noise(0, 4, 3072), noise(1, 4, 3072)]).reshape(-1, 3, 32, 32)
    assert torch.equal(data.train.pixels(), torch.from_numpy(want))
    assert torch.equal(standard.cifar(place, SMALL).test.pixels(), data.test.pixels())
    (tmp_path / "b").mkdir()
    archive = tmp_path / "b" / SMALL.remotes[0].name
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(place, place.name)
    remote = SMALL.remotes[0]._replace(md5=md5(archive.read_bytes()).hexdigest())
    small = SMALL._replace(remotes=(remote,))
    assert torch.equal(standard.cifar(tmp_path / "b", small).train.pixels(), data.train.pixels())
    assert (tmp_path / "b" / place.name / "data_batch_1").exists()


def test_missing_cifar_says_what_where_and_its_checksum(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz .*md5 c58f30108f718f") as error:
        standard.cifar(tmp_path, published("cifar10"))
    assert str(tmp_path / "cifar-10-python.tar.gz") in str(error.value)
    assert "linsep data get cifar10" in str(error.value)
    assert "\n" not in str(error.value)
    (write_cifar(tmp_path) / "test_batch").unlink()
    with pytest.raises(DataError, match="lacks test_batch"):
        standard.cifar(tmp_path, SMALL)


def _swap(a: Path, b: Path) -> None:
    kept = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(kept)


def _copy(place: Path) -> None:
    write_pickle(place / "data_batch_1", {b"data": noise(0, 4, 3072), b"labels": [0, 0, 0, 1]})
    shutil.copy(place / "data_batch_1", place / "data_batch_2")


def _batch(**content: object) -> Callable[[Path], None]:
    """Write another test batch, of which some is wrong."""
    right = {"data": noise(0, 4, 3072), "labels": [0, 1, 0, 1]}
    found = {key: value for key, value in (right | content).items() if value is not None}
    return lambda place: write_pickle(place / "test_batch", found)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: _swap(p / "data_batch_1", p / "batches.meta"), "batches.meta"),
        (_copy, "swapped or copied"),
        (_batch(labels=[0, 1, 2, 0]), "label 2; this set has 0 to 1"),
        (_batch(labels=[0, -1, 1, 0]), "label -1"),
        (_batch(labels=[0, 1]), "the labels should be 4 numbers"),
        (_batch(labels=["a"] * 4), "should be 4 numbers"),
        (_batch(labels=[1, 10**30, 0, 1]), "should be 4 numbers"),
        (_batch(labels=[0, [1], 0, 1]), "test_batch cannot be read"),
        (_batch(data=noise(0, 4, 3071)), "4 x 3072 bytes, but is uint8 of shape"),
        (_batch(data=None), "but is missing"),
        (lambda p: write_pickle(p / "batches.meta", {b"label_names": [b"cat"]}), "2 names"),
    ],
)
def test_wrong_cifar_files_are_named(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    spoil(write_cifar(tmp_path))
    with pytest.raises(DataError, match=message):
        standard.cifar(tmp_path, SMALL)


def write_digits(root: Path, zipped: bool, dotted: bool = False) -> dict[str, Path]:
    content = {
        "train-images-idx3": noise(0, 3, 28, 28),
        "train-labels-idx1": np.array([0, 1, 0], np.uint8),
        "t10k-images-idx3": noise(1, 2, 28, 28),
        "t10k-labels-idx1": np.array([1, 0], np.uint8),
    }
    root.mkdir(parents=True)
    found = {}
    for name, array in content.items():
        called = name.replace("-idx", ".idx") if dotted else name
        path = root / f"{called}-ubyte{'.gz' if zipped else ''}"
        path.write_bytes(gzip.compress(idx(array)) if zipped else idx(array))
        found[name] = path
    return found


@pytest.mark.parametrize(("place", "zipped"), [("MNIST/raw", True), ("mnist", False), (".", True)])
def test_digits_wherever_they_are(tmp_path: Path, place: str, zipped: bool) -> None:
    write_digits(tmp_path / "d" / place, zipped, dotted=place == "mnist")
    data = standard.mnist(tmp_path / "d", DIGITS)
    assert data.train.shape == (1, 28, 28)
    assert data.test.y.tolist() == [1, 0]
    assert torch.equal(data.train.pixels()[:, 0], torch.from_numpy(noise(0, 3, 28, 28)))


def test_wrong_idx_files_are_named(tmp_path: Path) -> None:
    files = write_digits(tmp_path / "mnist", zipped=False)
    images, labels = files["train-images-idx3"], files["train-labels-idx1"]
    whole = images.read_bytes()
    for content, message in (
        (whole[:-5], "cut off"),
        (whole + b"x", "too long"),
        (labels.read_bytes(), "another file"),
        (idx(noise(0, 3, 28, 27)), r"the shape \(3, 28, 28\)"),
        (b"", "another file"),
    ):
        images.write_bytes(content)
        with pytest.raises(DataError, match=f"train-images.*{message}"):
            standard.mnist(tmp_path, DIGITS)
    images.write_bytes(whole)
    labels.write_bytes(idx(np.array([1, 1, 0], np.uint8)))
    with pytest.raises(DataError, match="not mnist's: class 0 has 1 images and should have 2"):
        standard.mnist(tmp_path, DIGITS)
    labels.unlink()
    with pytest.raises(DataError, match="mnist lacks train-labels-idx1-ubyte"):
        standard.mnist(tmp_path, DIGITS)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz .*md5 f68b3c2"):
        standard.mnist(tmp_path / "nowhere", MNIST)


def test_idx_gz_that_is_cut_or_a_bomb(tmp_path: Path) -> None:
    files = write_digits(tmp_path / "mnist", zipped=True)
    path = files["t10k-images-idx3"]
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte\.gz cannot be read"):
        standard.mnist(tmp_path, DIGITS)
    path.write_bytes(gzip.compress(idx(noise(1, 2, 28, 28)) + bytes(50_000_000)))
    with pytest.raises(DataError, match="too long"):
        standard.mnist(tmp_path, DIGITS)


def test_tiny_in_both_layouts(tmp_path: Path) -> None:
    place = write_tiny(tmp_path)
    listing = listings.list_tinyimagenet(place, 3)
    assert listing.names == ("word n00000000", "word n00000001", "word n00000002")
    data = prepared(listing, Treatment())
    assert data.train.y.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.test.y.tolist() == [0, 1, 2]
    assert data.train.shape == (3, 12, 12)
    (place / "val" / "val_annotations.txt").unlink()
    for c in range(3):
        target = place / "val" / f"n{c:08d}" / "images"
        target.mkdir(parents=True)
        (place / "val" / "images" / f"val_{c}.png").rename(target / f"val_{c}.png")
    again = prepared(listings.list_tinyimagenet(place, 3), Treatment())
    assert torch.equal(again.test.pixels(), data.test.pixels())


def _notes(place: Path, old: str, new: str) -> None:
    file = place / "val" / "val_annotations.txt"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: _notes(p, "n00000001", "n99999999"), "line 2: 'n99999999' is not a class"),
        (lambda p: _notes(p, "val_1.png", "val_0.png"), "line 2: 'val_0.png' has a label already"),
        (lambda p: _notes(p, "val_1.png", "val_9.png"), "val_9.png is missing"),
        (lambda p: write_image(p / "val" / "images" / "x.png", 0), "x.png has no label"),
        (lambda p: (p / "val" / "val_annotations.txt").unlink(), "val_annotations.txt is missing"),
        (lambda p: (p / "wnids.txt").write_text("n00000000\n" * 3), "should be 3 classes"),
        (lambda p: shutil.rmtree(p / "train" / "n00000002"), "n00000002' has no training image"),
    ],
)
def test_wrong_tiny_labels_are_named(
    tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    place = write_tiny(tmp_path)
    spoil(place)
    with pytest.raises(DataError, match=message):
        prepared(listings.list_tinyimagenet(place, 3), Treatment())


def test_imagenet100_is_the_list_of_seed_1993(tmp_path: Path) -> None:
    """Ids sort as the 1000 classes do, so their ranks must be those of the drawn numbers."""
    drawn = np.random.RandomState(1993).permutation(1000)[:100]
    assert np.array_equal(np.argsort(listings.IMAGENET100), np.argsort(drawn))
    assert len(set(listings.IMAGENET100)) == 100
    assert sha256("\n".join(listings.IMAGENET100).encode()).hexdigest() == SHA256
    assert listings.IMAGENET100[list(drawn).index(7)] == "n01514668"  # 7: the cock
    with pytest.raises(DataError, match=r"imagenet100 is not in .*requires an account"):
        listings.imagenet100(tmp_path, IMAGENET100)


def test_imagenet100_at_256(tmp_path: Path) -> None:
    few = IMAGENET100.names[:3]
    files = tuple(f"{part}/{wnid}" for part in ("train", "val") for wnid in few)
    small = IMAGENET100._replace(names=few, files=files)
    for i, name in enumerate((*files, "train/n00000001", "val/n00000001")):
        size = (300, 260) if i % 2 else (256, 400)
        write_image(tmp_path / "imagenet" / name / "a.JPEG", i, size)
    data = listings.imagenet100(tmp_path, small)
    assert data.train.shape == (3, 256, 256)
    assert (len(data.train), len(data.test)) == (3, 3)
    assert data.names == few
    shutil.rmtree(tmp_path / "imagenet" / files[-1])
    with pytest.raises(DataError, match=f"imagenet lacks {files[-1]}"):
        listings.imagenet100(tmp_path, small)
