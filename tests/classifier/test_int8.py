"""`linsep export --int8`: a smaller file that agrees with the classifier on most images."""

from pathlib import Path

import numpy as np
import pytest

from linsep import IncrementalClassifier
from linsep.classifier.int8 import export_int8
from linsep.data.standard import fashion_mini
from linsep.errors import DataError
from tests.helpers.command import command
from tests.helpers.made_data import noise

from .test_export import can_export, run_onnx


@pytest.fixture(scope="module")
def shop() -> IncrementalClassifier:
    can_export()
    data = fashion_mini()
    x, y = data.train.pixels().numpy(), np.array(data.names)[data.train.y]
    clf = IncrementalClassifier("er", "cnn", memory=60, epochs=2, like="fashion-mini")
    rows = np.isin(y, ["Trouser", "Bag", "Sandal"])
    return clf.fit(x[rows], y[rows])


def test_int8_is_smaller_and_agrees_on_most_images(
    shop: IncrementalClassifier, tmp_path: Path
) -> None:
    shop.save(tmp_path / "shop")
    said = command("export", "shop", "-o", "small.onnx", "--int8", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "Accuracy on " in said.stdout
    shop.export(tmp_path / "whole.onnx")
    x = fashion_mini().test.pixels().numpy()[:200, 0, :, :, None]
    small, whole = (run_onnx(tmp_path / f"{name}.onnx", x)[0] for name in ("small", "whole"))
    assert (small.argmax(1) == whole.argmax(1)).mean() > 0.9
    assert not np.array_equal(small, whole)
    sizes = [(tmp_path / f"{name}.onnx").stat().st_size for name in ("small", "whole")]
    assert sizes[0] < sizes[1]


def test_too_few_images_are_refused(shop: IncrementalClassifier, tmp_path: Path) -> None:
    few = IncrementalClassifier("er", "cnn", memory=4, epochs=1, test_share=0.0)
    few.fit(noise(0, 20, 12, 12, 3), ["ant", "bee"] * 10)
    with pytest.raises(DataError, match="at least 32 images to calibrate"):
        export_int8(few, tmp_path / "few.onnx")
    assert not (tmp_path / "few.onnx").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--images", "."), "--images: belongs to --int8"),
        (("--int8", "-o", "x.pt2"), "--int8 writes ONNX: name a file such as x.onnx"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    words: tuple[str, ...], line: str, tmp_path: Path
) -> None:
    output = () if "-o" in words else ("-o", "x.onnx")
    said = command("export", "shop", *output, *words, cwd=tmp_path)
    assert (said.returncode, said.stderr) == (2, f"error: {line}\n")
