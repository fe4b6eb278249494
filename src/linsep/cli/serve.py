"""`linsep serve`: answer over HTTP with a classifier that `linsep learn` has made."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ..errors import printable
from ..optional import needed
from .flags import Custom, one_of

if TYPE_CHECKING:
    from ..serving.model import Runtime

WHAT = "The model's folder, or a file that linsep export wrote."
RUNTIME = "onnx, without torch in the server, or torch."
THREADS = "Threads that compute answers. Default: the number of cores."
BYTES = "Megabytes of a request."
RUNTIMES = ("onnx", "torch")


def serve(
    model: Annotated[Path, Argument(metavar="MODEL", help=WHAT)],
    *,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 takes any.")] = 8000,
    runtime: Annotated[
        str, Option(parser=one_of("--runtime: ", "runtime", RUNTIMES), help=RUNTIME)
    ] = "onnx",
    threads: Annotated[int | None, Option(min=1, help=THREADS)] = None,
    max_images: Annotated[int, Option(min=1, max=1024, help="Images of a request.")] = 64,
    max_mb: Annotated[float, Option(min=0.001, help=BYTES)] = 32.0,
    max_pixels: Annotated[
        int, Option(min=1, help="Pixels of all images of a request.")
    ] = 50_000_000,
    timeout: Annotated[float, Option(min=0.1, help="Seconds for a request to arrive.")] = 30.0,
    custom: Custom = None,
) -> None:
    """Answer over HTTP: POST images to /predict, or open the page at /.

    A new lesson is picked up while requests go on. There is no password: listen on 127.0.0.1, or
    behind a proxy that asks for one. Needs fastapi: pip install 'linsep\\[serve]'.

    Examples:
      linsep serve shop/
      curl -F images=@photo.jpg http://127.0.0.1:8000/predict
    """
    for package in ("fastapi", "python_multipart", "uvicorn"):
        needed(package, "linsep serve")
    from ..serving.app import app
    from ..serving.intake import Limits
    from ..serving.server import listening, run
    from ..serving.watch import Watched

    warnings.simplefilter("ignore")  # of images that others send
    limits = Limits(max_images, int(max_mb * 1e6), max_pixels, timeout)
    cores = threads or os.cpu_count() or 1
    with listening(host, port) as socket:
        how: Runtime = "torch" if runtime == "torch" else "onnx"
        models = Watched(model, how, cores, custom or (), _tell)
        at = f"[{host}]" if ":" in host else host
        digest, known = models.current.digest, len(models.current.classes)
        _tell(
            f"Serving {model} ({known} classes, {digest}) at http://{at}:{socket.getsockname()[1]}"
        )
        with models:
            run(app(models, limits), socket, timeout)


def _tell(line: str) -> None:
    sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()
