"""The images of a request, read and decoded within limits; what exceeds them is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from ..data.decoding import read_image, size_of
from ..errors import DataError, printable
from .batches import BusyError
from .model import Rows, Served

FIELDS = 16  # of a form, beside its images; they are ignored
AT_ONCE = 8  # times the bytes of the largest request that all requests together may hold
LONGEST = 100  # characters of a file's name that are repeated
USE = "send images as files of a multipart form: curl -F images=@photo.jpg"


class Problem(Exception):  # noqa: N818 - it is an answer
    """Why a request is refused, in one line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status, self.line = status, line


@dataclass(frozen=True)
class Limits:
    """Of one request."""

    images: int = 64
    bytes: int = 32_000_000
    pixels: int = 50_000_000  # of all its images together
    seconds: float = 30.0  # for its arrival


class Sent(NamedTuple):
    name: str
    content: bytes


class _Parts(MultiPartParser):
    """Parts are held in memory: nothing that is sent reaches the disk."""

    spool_max_size = 0


class Intake:
    """Reads requests; all that are being read or decoded share a budget of bytes."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self._held = limits, 0

    @asynccontextmanager
    async def images(self, request: Request) -> AsyncIterator[list[Sent]]:
        """The files of a form; Problem if it is none, too large or too slow."""
        kind, options = parse_options_header(request.headers.get("content-type"))
        if kind != b"multipart/form-data":
            raise Problem(415, USE)
        if not options.get(b"boundary"):
            raise Problem(400, f"the content type names no boundary; {USE}")
        held = [0]
        try:
            async with asyncio.timeout(self.limits.seconds):
                found = await self._parsed(request, held)
            yield found
        except TimeoutError:
            late = f"the request took more than {self.limits.seconds:g} s to arrive"
            raise Problem(408, late) from None
        except ClientDisconnect:
            raise Problem(400, "the request ended early") from None
        finally:
            self._held -= held[0]

    async def _parsed(self, request: Request, held: list[int]) -> list[Sent]:
        most = self.limits.images
        stream = self._within(request, held)
        # One more than allowed, so that the refusal is ours.
        parser = _Parts(request.headers, stream, max_files=most + 1, max_fields=FIELDS)
        try:
            form = await parser.parse()
        except MultiPartException as error:
            if "Too many files" in error.message:
                raise Problem(413, f"a request may have at most {most} images") from None
            raise Problem(400, f"the form cannot be read: {printable(error.message)}") from None
        files = [part for _, part in form.multi_items() if isinstance(part, UploadFile)]
        if not files:
            raise Problem(422, f"the form has no file in it; {USE}")
        if len(files) > most:
            raise Problem(413, f"a request may have at most {most} images, not {len(files)}")
        return [
            Sent(printable(file.filename or f"images[{i}]")[:LONGEST], await file.read())
            for i, file in enumerate(files)
        ]

    async def _within(self, request: Request, held: list[int]) -> AsyncGenerator[bytes]:
        """The chunks of a request's body, as long as there are not too many."""
        most = self.limits.bytes
        large = Problem(413, f"a request may have at most {most} bytes")
        if int(request.headers.get("content-length", 0)) > most:
            raise large
        async for chunk in request.stream():
            held[0] += len(chunk)
            self._held += len(chunk)
            if held[0] > most:
                raise large
            if self._held > AT_ONCE * most:
                raise BusyError
            yield chunk


def decoded(sent: Sequence[Sent], model: Served, most: int) -> Rows:
    """Images in the form of a model, (n, height, width, channels); Problem if one is not."""
    try:
        if sum(_pixels(one, model.side or 0) for one in sent) > most:
            raise Problem(413, f"the images of a request may have at most {most} pixels in all")
        rows = [_row(one, model) for one in sent]
    except DataError as error:
        raise Problem(422, printable(str(error))) from None
    return np.stack(rows)


def _pixels(sent: Sent, side: int) -> int:
    """Of an image, or of the one that it is resized to before its middle is cut out, if larger."""
    width, height = size_of(sent.content, sent.name)
    scale = side / max(1, min(width, height))
    return int(width * height * max(1.0, scale * scale))


def _row(sent: Sent, model: Served) -> Rows:
    channels, height, width = model.shape
    row = read_image(sent.content, channels=channels, side=model.side, upright=True, name=sent.name)
    if row.shape != model.shape:
        found = f"{row.shape[2]}x{row.shape[1]}"
        raise Problem(422, f"{sent.name} has {found} pixels; the model reads {width}x{height}")
    return row.transpose(1, 2, 0)
