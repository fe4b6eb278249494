"""A small classifier, as a folder and as a file."""

from pathlib import Path

import pytest

from linsep import IncrementalClassifier
from tests.classifier.test_export import can_export
from tests.helpers.made_data import noise

SETTINGS = {"net": {"options": {"width": 8}}}


@pytest.fixture(scope="package")
def taught() -> IncrementalClassifier:
    """Four classes of colour images of 12x12."""
    can_export()
    for package in ("fastapi", "uvicorn", "python_multipart", "onnxruntime"):
        pytest.importorskip(package)
    clf = IncrementalClassifier("er", "cnn", memory=12, epochs=1, settings=SETTINGS)
    clf.fit(noise(0, 40, 12, 12, 3), ["ant", "bee"] * 20)
    return clf.partial_fit(noise(1, 40, 12, 12, 3), ["cow", "dog"] * 20)


@pytest.fixture(scope="package")
def folder(taught: IncrementalClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served") / "secret-place"
    taught.save(place)
    return place


@pytest.fixture(scope="package")
def file(taught: IncrementalClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("exported") / "secret-place.onnx"
    taught.export(place)
    return place
