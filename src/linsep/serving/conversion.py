"""A folder's classifier as an ONNX file for a server: run as a process of its own, with torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import LinsepError, StateError, printable
from ..storage import files, manifest

if TYPE_CHECKING:
    from ..classifier.predictive import SavedClassifier

TRIES = 3  # of reading a model that is being replaced meanwhile
LARGEST = 2 * 2**30  # bytes of an exported file


def main() -> None:
    folder, made, *custom = sys.argv[1:]
    try:
        digest, clf = loaded(Path(folder), custom)
        clf.export(made, resizes=False, more={"model": digest})
    except LinsepError as error:
        sys.stderr.write(f"error: {printable(str(error))}\n")
        sys.exit(2)


def version(path: Path) -> str:
    """What identifies the model that a path holds now."""
    if path.is_dir():
        told, classifier = manifest.read_classifier(path)
        if classifier.table:
            raise StateError(f"{path} was made of tables of numbers, and reads no images")
        return told.version
    return files.digest(files.read(path, LARGEST))


def loaded(folder: Path, custom: Sequence[str]) -> tuple[str, SavedClassifier]:
    """A folder's classifier, and the digest of what it answers."""
    import torch

    from ..classifier.predictive import SavedClassifier

    torch.set_num_threads(1)
    for _ in range(TRIES):
        digest = version(folder)
        found = SavedClassifier.load(folder, custom=custom)
        if version(folder) == digest:
            return digest, found
    raise StateError(f"{folder} was replaced {TRIES} times while it was read; try again")


if __name__ == "__main__":
    main()
