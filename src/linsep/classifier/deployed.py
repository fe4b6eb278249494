"""A saved classifier that predicts and does not learn: it starts in the time that torch takes.

Knows what `predictive.py` answers, and nothing of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor, nn

from .described import restored
from .inputs import InputError, read
from .novelty import Known
from .predictive import Predictive
from .saved import opened


class SavedClassifier(Predictive):
    """A classifier in a folder, to predict with.

    It answers what the `IncrementalClassifier` in that folder would, with the same bits, and is
    there sooner, since learning and scikit-learn stay out of it.

    >>> import numpy as np, linsep
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    >>> clf = linsep.IncrementalClassifier("er", "mlp", memory=10, epochs=1)
    >>> clf.fit(images, ["cat", "dog"] * 10).save("pets")
    >>> pets = linsep.SavedClassifier.load("pets")
    >>> bool((pets.predict(images) == clf.predict(images)).all())
    True
    """

    @classmethod
    def load(
        cls, path: str | Path, *, net: nn.Module | None = None, own: Sequence[str] = ()
    ) -> Self:
        """Read a classifier from a folder; `net` and `own` as for an IncrementalClassifier."""
        return restored(lambda params: cls(), Path(path), opened(Path(path)), net, own=own)

    def _known(self) -> Known | None:
        if not hasattr(self, "_looked_up"):  # once: what it knows stays the same
            self._looked_up = super()._known()
        return self._looked_up

    def _rows(self, X: Any) -> Tensor:
        if not self.form_.table:
            return self._fitting(read(X, self.form_).rows)
        table = np.asarray(X, dtype=np.float64)
        if table.ndim != 2:
            raise InputError(f"X should be a table, rows of numbers; found shape {table.shape}")
        return self._fitting(read(table, self.form_).rows)
