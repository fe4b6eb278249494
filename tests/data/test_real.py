"""The real images, where LINSEP_TEST_DATA names the folder that holds them."""

import os
from pathlib import Path

import pytest

from linsep.data.images import Dataset, duplicates, pixel_statistics
from linsep.data.listings import folder
from linsep.data.registry import SOURCES
from linsep.data.scenarios import load
from linsep.settings.sections import Scenario

pytestmark = [pytest.mark.data, pytest.mark.slow]


@pytest.fixture(scope="module")
def root() -> Path:
    given = os.environ.get("LINSEP_TEST_DATA")
    if not given:
        pytest.skip("LINSEP_TEST_DATA is not set: the folder that holds the real images")
    return Path(given)


def needs(place: Path) -> None:
    if not place.exists():
        pytest.skip(f"{place} is not there")


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))


def read(name: str, root: Path) -> Dataset:
    return load(Scenario(name=name, data=str(root)))


def expect(
    data: Dataset, name: str, shape: tuple[int, int, int], train: int, test: int, off: float
) -> None:
    """Shape, images of every class, and pixel statistics near the ones that are used."""
    used, classes = SOURCES[name].augment, len(data.names)
    assert used is not None
    assert data.train.shape == data.test.shape == shape
    assert data.train.counts(classes) == [train] * classes
    assert data.test.counts(classes) == [test] * classes
    assert len(set(data.names)) == classes
    found = pixel_statistics(data.train)
    for measured, usual in zip(found.mean + found.std, used.mean + used.std, strict=True):
        assert abs(measured - usual) < off


def test_cifar10(root: Path) -> None:
    needs(root / "cifar-10-batches-py")
    data = read("split-cifar10", root)
    expect(data, "split-cifar10", (3, 32, 32), 5000, 1000, 0.002)
    assert data.names[:2] == ("airplane", "automobile")
    assert data.train.y[:6].tolist() == [6, 9, 9, 4, 1, 1]
    assert duplicates(data) == 0


def test_cifar100(root: Path) -> None:
    needs(root / "cifar-100-python")
    data = read("split-cifar100", root)
    expect(data, "split-cifar100", (3, 32, 32), 500, 100, 0.002)
    assert data.names[:2] == ("apple", "aquarium_fish")
    assert duplicates(data) == 10  # as published


def test_tinyimagenet(root: Path) -> None:
    needs(root / "tiny-imagenet-200")
    data = read("split-tinyimagenet", root)
    per_class = len(data.train) // 200, len(data.test) // 200  # perhaps a subset
    whole = per_class == (500, 50)
    off = 0.002 if whole else 0.004
    expect(data, "split-tinyimagenet", (3, 64, 64), *per_class, off)
    assert data.names[0] == "goldfish"


def test_photographs_in_folders(root: Path) -> None:
    needs(root / "imagenet20")
    data = folder(root / "imagenet20")
    assert data.train.shape == (3, 224, 224)
    assert len(data.names) == 20
    assert len(data.train) + len(data.test) == 280
    assert folder(root / "imagenet20", image_size=256).train.shape == (3, 256, 256)
