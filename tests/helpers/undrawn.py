"""Reports whose figures are computed and not drawn: drawing is most of the work."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import matplotlib.figure


@contextmanager
def undrawn() -> Iterator[None]:
    def savefig(self: Any, out: io.StringIO, **options: Any) -> None:
        out.write("<svg></svg>")

    with mock.patch.object(matplotlib.figure.Figure, "savefig", savefig):
        yield
