"""`linsep predict` and `export`: use a classifier that `linsep learn` has made."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ..compare.tables import Table
from ..errors import ConfigError, DataError, StateError, printable
from ..storage import manifest
from .flags import Custom, Form
from .learn import Model
from .terminal import open_console, say

if TYPE_CHECKING:
    from ..classifier.predictive import SavedClassifier

INT8 = "Weights and activations of eight bits: smaller, often faster."
CALIBRATION = "Class folders or a CSV to calibrate --int8 on. Default: the images that are kept."
LOG = "Append the predictions to this file, for linsep model drift."
CHUNK = 256  # images in memory at once
WHICH = "Folders, image files, or - to read paths from standard input."
UNSURE = "Name no class if its probability is lower."


def predict(
    model: Model,
    images: Annotated[list[str], Argument(metavar="IMAGES", help=WHICH)],
    *,
    unknown_below: Annotated[float | None, Option(metavar="P", help=UNSURE)] = None,
    log: Annotated[Path | None, Option(metavar="FILE", help=LOG)] = None,
    custom: Custom = None,
    form: Form,
) -> None:
    """Classify images, with probabilities and novelty.

    Novelty is how unlike the images learned so far an image looks.

    Examples:
      linsep predict shop/ new-photos
      find . -name "*.jpg" | linsep predict shop/ - --format csv
    """
    if unknown_below is not None and not 0 <= unknown_below <= 1:
        raise ConfigError(f"--unknown-below: should be from 0 to 1, not {unknown_below}")

    told, known = manifest.read_classifier(model)
    if known.table:
        raise StateError(f"{model} was made of tables of numbers, and reads no images")
    paths = [path for given in images for path in paths_of(given)]
    if not paths:
        raise DataError("there are no images to classify")

    classifier = _loaded(model, custom or ())
    chunks = (paths[i : i + CHUNK] for i in range(0, len(paths), CHUNK))
    rows = [row for part in chunks for row in _classified(classifier, part)]
    if log is not None:
        from ..classifier.drift import append

        append(log, told.version, rows)
    least = unknown_below or 0.0
    rows = [(file, label if p >= least else None, p, new) for file, label, p, new in rows]
    columns = ("file", "class", "probability", "novelty")
    form.publish([Table(columns, rows, digits=3)])


def _loaded(model: Path, custom: Sequence[str]) -> SavedClassifier:
    """The model; the collector would search through all of torch again and again, in vain."""
    gc.disable()
    try:
        from ..classifier.predictive import SavedClassifier

        return SavedClassifier.load(model, custom=custom)
    finally:
        gc.freeze()
        gc.enable()


def paths_of(given: str) -> list[Path]:
    """The images that an argument means."""
    from ..data.reading import SUFFIXES, images_below

    if given == "-":
        found = [Path(os.fsdecode(line)) for line in sys.stdin.buffer.read().splitlines() if line]
    elif Path(given).is_dir():
        found = images_below(Path(given))
        if not found:
            raise DataError(f"{given} has no images ({', '.join(SUFFIXES)}) in it")
    else:
        found = [Path(given)]
    for path in found:
        if not path.is_file():
            raise DataError(f"there is no image {path}")
    return found


def _classified(
    classifier: SavedClassifier, paths: Sequence[Path]
) -> list[tuple[str, str | None, float, float]]:
    from ..data.objects import read

    rows = read(list(paths), classifier.form_).rows
    p = classifier.predict_proba(rows)
    strange = classifier.novelty(rows).tolist()
    found: list[tuple[str, str | None, float, float]] = []
    for i, path in enumerate(paths):
        best = int(p[i].argmax())
        label = printable(str(classifier.classes_[best]))
        found.append((printable(str(path)), label, float(p[i, best]), strange[i]))
    return found


def export(
    model: Model,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="model.onnx or model.pt2.")
    ],
    *,
    int8: Annotated[bool, Option("--int8", help=INT8)] = False,
    images: Annotated[Path | None, Option(metavar="IMAGES", help=CALIBRATION)] = None,
    custom: Custom = None,
) -> None:
    """Write a model as ONNX or as torch's .pt2, for other programs.

    ONNX needs onnx: pip install 'linsep\\[onnx]'. With --int8 it needs onnxruntime too:
    pip install 'linsep\\[serve]'.

    Examples:
      linsep export shop/ -o shop.onnx
      linsep export shop/ -o small.onnx --int8
    """
    if images is not None and not int8:
        raise ConfigError("--images: belongs to --int8")
    if int8 and output.suffix != ".onnx":
        raise ConfigError(f"--int8 writes ONNX: name a file such as {output.stem}.onnx")
    from ..classifier.predictive import SavedClassifier

    console, classifier = open_console(), SavedClassifier.load(model, custom=custom or ())
    if not int8:
        classifier.export(output)
    else:
        from ..classifier.int8 import export_int8

        found = export_int8(classifier, output, images)
        before, after = (f"{100 * share:.1f} %" for share in (found.before, found.after))
        say(console, f"Accuracy on {found.images} images: {before} before, {after} after")
        full, small = (f"{size / 1e6:.2f} MB" for size in found.bytes)
        say(console, f"Size: {full} before, {small} after")
    say(console, f"Written to {output}")
