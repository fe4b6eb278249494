"""An exported classifier in eight bits: smaller, often faster, and nearly as accurate.

onnxruntime's static quantisation of convolutions and linear layers. The ranges of their inputs are
measured on images, half of those there are; accuracy is measured on the others.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..data.objects import read
from ..errors import DataError
from ..optional import needed
from ..storage import files
from .export import INPUT
from .predictive import Predictive

LAYERS = ["Conv", "Gemm"]
MOST = 256  # images that ranges are measured on
FEWEST = 16  # without which they would be chance
CHUNK = 64


class Quantised(NamedTuple):
    """How many test images there were, and the share classified right before and after."""

    images: int
    before: float
    after: float
    bytes: tuple[int, int]  # of the file, before and after


def export_int8(clf: Predictive, path: Path, images: Any = None) -> Quantised:
    """Write a classifier as an ONNX file with weights and activations of eight bits.

    `images` are those to calibrate and test on, in folders of classes or in any form that comes
    with labels; by default the images that the classifier keeps.
    """
    rows, labels = _kept(clf) if images is None else _given(clf, images)
    if len(rows) < 2 * FEWEST:
        raise DataError(
            f"int8 needs at least {2 * FEWEST} images to calibrate and test on, and there are "
            f"{len(rows)}; name a folder of more (--images)"
        )
    order = np.random.default_rng(0).permutation(len(rows))
    some, others = order[: len(rows) // 2][:MOST], order[len(rows) // 2 :]
    with tempfile.TemporaryDirectory() as scratch:
        plain, made = Path(scratch, "plain.onnx"), Path(scratch, "int8.onnx")
        clf.export(plain)
        _quantise(plain, made, rows[some])
        classes = clf.classes_
        before, after = (
            _accuracy(file, rows[others], labels[others], classes) for file in (plain, made)
        )
        content = made.read_bytes()
        sizes = plain.stat().st_size, len(content)
    files.write(path, content)
    return Quantised(len(others), before, after, sizes)


def _kept(clf: Predictive) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    kept = clf.kept_
    if kept.shape != clf.course_.shape:
        raise DataError(
            "the classifier keeps no images that int8 could be calibrated on; name a folder of "
            "some (--images)"
        )
    names = np.asarray(clf.columns_)
    return _last(kept.pixels()), names[kept.y.numpy()]


def _given(clf: Predictive, images: Any) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    given = read(images, clf.form_)
    if given.labels is None:
        raise DataError("images to test int8 on need labels, such as folders of classes")
    labels = np.asarray(given.labels)
    strange = sorted(set(labels.tolist()) - set(clf.classes_.tolist()))
    if strange:
        raise DataError(f"{images}: {strange[0]!r} is none of the classifier's classes")
    return _last(given.rows), labels


def _last(rows: Tensor) -> NDArray[np.uint8]:
    """(n, height, width, channels)"""
    return np.ascontiguousarray(rows.permute(0, 2, 3, 1).numpy())


def _quantise(plain: Path, made: Path, rows: NDArray[np.uint8]) -> None:
    quantization: Any = needed("onnxruntime.quantization", "int8")

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.rows = iter(rows)

        def get_next(self) -> dict[str, NDArray[np.uint8]] | None:
            row = next(self.rows, None)
            return None if row is None else {INPUT: row[None]}

    logging.disable(logging.WARNING)  # it recommends a step that changes nothing here
    try:
        quantization.quantize_static(
            plain, made, Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
            reduce_range=True, activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8, op_types_to_quantize=LAYERS,
        )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)


def _accuracy(
    file: Path, rows: NDArray[np.uint8], labels: NDArray[Any], classes: NDArray[Any]
) -> float:
    session = needed("onnxruntime", "int8").InferenceSession(file)
    right = 0
    for start in range(0, len(rows), CHUNK):
        p, _ = session.run(None, {INPUT: rows[start : start + CHUNK]})
        right += int((classes[p.argmax(1)] == labels[start : start + CHUNK]).sum())
    return right / len(rows)
