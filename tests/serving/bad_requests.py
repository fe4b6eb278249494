"""Requests that must be refused, by what is wrong with them: the bytes that a client sends."""

import struct
import zlib
from io import BytesIO

from PIL import Image

from tests.helpers.served import EDGE, FORM, form, part, picture

IMAGES, BYTES, PIXELS = 4, 200_000, 300_000  # the limits of the server that is asked
END = f"--{EDGE}--\r\n".encode()
GOOD = picture()


def request(
    method: str = "POST",
    path: str = "/predict",
    body: bytes = b"",
    kind: str = FORM,
    more: str = "",
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"Content-Length: {len(body)}"] if "Transfer-Encoding" not in more else []
    return "\r\n".join([*lines, *filter(None, [more]), "", ""]).encode("latin-1") + body


def posted(*files: bytes) -> bytes:
    return request(body=form(*files))


def chunk(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def png(width: int, height: int, rows: bytes) -> bytes:
    """A grey PNG that promises a size, whatever its rows are."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def bomb(width: int, height: int) -> bytes:
    """A PNG whose rows really unpack to so many pixels."""
    return png(width, height, bytes((width + 1) * height))


def animated() -> bytes:
    """A GIF whose logical screen is huge."""
    content = BytesIO()
    Image.new("L", (4, 4)).save(content, "GIF")
    whole = bytearray(content.getvalue())
    whole[6:10] = struct.pack("<HH", 65535, 65535)
    return bytes(whole)


def bmp(width: int, height: int) -> bytes:
    content = BytesIO()
    Image.new("L", (4, 4)).save(content, "BMP")
    whole = bytearray(content.getvalue())
    whole[18:26] = struct.pack("<ii", width, height)
    return bytes(whole)


def tiff() -> bytes:
    content = BytesIO()
    Image.new("F", (4, 4)).save(content, "TIFF")
    return content.getvalue()


CHUNKED = "Transfer-Encoding: chunked"
BROKEN = {  # what is not even a request
    "rubbish": b"rubbish\r\n\r\n",
    "no host": b"GET /model HTTP/1.1\r\n\r\n",
    "a header without a colon": b"GET /model HTTP/1.1\r\nHost: x\r\nnothing\r\n\r\n",
    "a null in a header": b"GET /model HTTP/1.1\r\nHost: x\r\nA: \0\r\n\r\n",
    "a header without an end": b"GET /model HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 100_000,
    "a path of 100 kB": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a negative length": request(more="Content-Length: -1").replace(b"Content-Length: 0\r\n", b""),
    "two lengths": request(more="Content-Length: 7"),
    "a length in words": request(more="Content-Length: x").replace(b"Content-Length: 0\r\n", b""),
    "a chunk without a size": request(more=CHUNKED, body=b"zz\r\nabc\r\n"),
    "an unknown encoding": request(more="Transfer-Encoding: rot13"),
    "HTTP x": b"GET /model HTTP/x.1\r\nHost: x\r\n\r\n",
    "a space in a path": b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "a null in a path": b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
    "encrypted": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n",
    "HTTP 2": b"PRI * HTTP/2.0\r\n\r\n",
}
METHODS = {
    f"{method} {path}": request(method, path)
    for method, path in [
        ("GET", "/predict"), ("PUT", "/predict"), ("DELETE", "/predict"), ("PATCH", "/predict"),
        ("OPTIONS", "/predict"), ("TRACE", "/predict"), ("FROB", "/predict"), ("POST", "/model"),
        ("POST", "/metrics"), ("POST", "/"), ("DELETE", "/healthz"), ("PUT", "/openapi.json"),
    ]
}  # fmt: skip
PATHS = {
    f"the path {path[:40]}": request("GET", path)
    for path in [
        "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/..%2f..%2fetc/passwd",
        "/predict/", "/predict/../../etc/passwd", "/manifest.json", "/memory.safetensors",
        "/page.html", "/docs/../app.py", "/..\\..\\secret", "/%00", "/%c3%a9", "/%ff%fe",
        "/~root", "http://example.org/etc/passwd", "/" + "a/" * 3000, "/static/..;/manifest.json",
    ]
}  # fmt: skip
FORMS = {
    "no content type": request(body=GOOD, kind=""),
    "JSON": request(body=b'{"images": []}', kind="application/json"),
    "broken JSON": request(body=b'{"images": [', kind="application/json"),
    "plain text": request(body=b"hello", kind="text/plain"),
    "a bare image": request(body=GOOD, kind="image/png"),
    "no boundary": request(body=form(GOOD), kind="multipart/form-data"),
    "another boundary": request(body=form(GOOD), kind="multipart/form-data; boundary=other"),
    "a boundary of 10 kB": request(body=form(GOOD), kind=f"{FORM}{'x' * 10_000}"),
    "a broken charset": request(body=part(b"x", "form-data"), kind=f"{FORM}; charset=\xff"),
    "an empty body": request(),
    "an empty form": request(body=END),
    "a form cut short": request(body=form(GOOD)[:60]),
    "a form without its end": request(body=part(b"x" * 50)[:-20]),
    "a field and no file": request(body=part(b"x", 'form-data; name="images"') + END),
    "a part without a name": request(body=part(GOOD, 'form-data; filename="x.png"') + END),
    "a part without a disposition": request(body=f"--{EDGE}\r\n\r\nx\r\n".encode() + END),
    "a hundred fields": request(body=part(b"x", 'form-data; name="a"') * 100 + END),
    "a part's header of 10 kB": request(body=part(GOOD, "form-data; a=" + "b" * 10_000) + END),
    "a gzipped body": request(body=zlib.compress(form(GOOD)), more="Content-Encoding: gzip"),
    "too many images": posted(*[GOOD] * (IMAGES + 1)),
    "too many bytes": posted(bytes(BYTES + 1)),
    "a length that is too large": request(more="Content-Length: 99999999999").replace(
        b"Content-Length: 0\r\n", b""
    ),
    "too many bytes in chunks": request(
        more=CHUNKED, body=b"40000\r\n" + form(bytes(0x40000))[:0x40000] + b"\r\n0\r\n\r\n"
    ),
    "a probability of 2": request(path="/predict?unknown_below=2", body=form(GOOD)),
    "a probability in words": request(path="/predict?unknown_below=high", body=form(GOOD)),
    "a probability that is no number": request(path="/predict?unknown_below=nan", body=form(GOOD)),
}
PICTURES = {
    "an empty file": posted(b""),
    "text": posted(b"I am a picture"),
    "half a PNG": posted(GOOD[: len(GOOD) // 2]),
    "half a JPEG": posted(picture(kind="JPEG", size=(64, 64))[:700]),
    "a PNG's header": posted(GOOD[:8]),
    "a wrong checksum": posted(GOOD[:40] + b"\xff\xff\xff\xff" + GOOD[44:]),
    "a bomb's header": posted(png(60_000, 60_000, b"")),
    "the largest header": posted(png(2**31 - 1, 2**31 - 1, b"")),
    "a real bomb": posted(bomb(8000, 8000)),
    "pixels in all": posted(*[bomb(400, 400)] * 2),
    "no pixels": posted(png(0, 0, b"")),
    "missing rows": posted(png(100, 100, b"")),
    "a huge GIF": posted(animated()),
    "a huge BMP": posted(bmp(30_000, 30_000)),
    "a BMP upside down": posted(bmp(4, -(2**31))),
    "an SVG": posted(b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///x"/></svg>'),
    "a PDF": posted(b"%PDF-1.7\n1 0 obj<<>>endobj"),
    "a TIFF": posted(tiff()),
    "a zip": posted(b"PK\x03\x04" + bytes(60)),
    "PostScript": posted(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"),
    "a thread of pixels": posted(bomb(1, 100_000)),
    "one bad image among good ones": posted(GOOD, GOOD[:50], GOOD),
}
BAD = {**BROKEN, **METHODS, **PATHS, **FORMS, **PICTURES}
