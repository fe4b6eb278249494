"""The paths of the server and their answers; every error is JSON with one line about it."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import __version__
from ..storage.manifest import Label
from .batches import Batches, BusyError
from .intake import Intake, Limits, Problem, decoded
from .metrics import Metrics
from .model import Served
from .reference import reference
from .watch import Watched

PAGE = Path(__file__).with_name("page.html")
# A page of this server runs its own script and asks nobody else.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
)
FORM = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["images"],
                "properties": {
                    "images": {"type": "array", "items": {"type": "string", "format": "binary"}}
                },
            }
        }
    },
}


class Prediction(BaseModel):
    file: str = Field(description="The name under which the image was sent.")
    class_: Label | None = Field(
        alias="class", description="The most probable class; null below `unknown_below`."
    )
    probability: float = Field(description="Its calibrated probability.")
    novelty: float | None = Field(description="How unlike the learned images it looks.")


class Answer(BaseModel):
    model: str = Field(description="The digest of the model that answered.")
    predictions: list[Prediction]


class Card(BaseModel):
    model: str = Field(description="The digest of the model that answers now.")
    classes: list[Label]
    lessons: int
    learned: str = Field(description="When the last lesson ended.")
    method: str
    novelty: str = Field(description="How novelty is measured: by distance or energy.")
    reads: list[int] = Field(description="Channels, height and width of an image.")
    runtime: str
    linsep: str
    most: dict[str, int | float] = Field(description="The limits of one request.")


class Health(BaseModel):
    status: str
    model: str


class Error(BaseModel):
    error: str = Field(description="What was wrong, and what would be right.")


REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"model": Error, "description": "The form is broken."},
    408: {"model": Error, "description": "The request arrived too slowly."},
    413: {"model": Error, "description": "Too many bytes, images or pixels."},
    415: {"model": Error, "description": "The request is no multipart form."},
    422: {"model": Error, "description": "An image or a parameter cannot be read."},
    503: {"model": Error, "description": "Too many requests wait. Try again."},
}
Sure = Annotated[
    float | None, Query(ge=0, le=1, description="Leave the class open below this probability.")
]


def app(models: Watched, limits: Limits) -> FastAPI:
    """The application for a model."""
    metrics = Metrics()
    batches = Batches(metrics.batches.add)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        work = asyncio.create_task(batches.work())
        yield
        work.cancel()

    made = FastAPI(
        title="linsep", version=__version__, lifespan=running, docs_url=None, redoc_url=None,
        summary="A classifier that keeps learning.", redirect_slashes=False,
    )  # fmt: skip
    _answer_images(made, models, limits, batches, metrics)
    _tell_state(made, models, limits, batches, metrics)
    _show_pages(made)
    _explain_errors(made)
    paths = {route.path for route in made.routes if hasattr(route, "path")}
    made.add_middleware(Counted, metrics=metrics, paths=paths)
    return made


def _answer_images(
    made: FastAPI, models: Watched, limits: Limits, batches: Batches, metrics: Metrics
) -> None:
    intake, decoding = Intake(limits), ThreadPoolExecutor(os.cpu_count() or 1, "decode")
    form = {"requestBody": FORM}

    @made.post("/predict", response_model=Answer, responses=REFUSED, openapi_extra=form)
    async def predict(request: Request, unknown_below: Sure = None) -> Response:
        """Classify images, several at once."""
        async with intake.images(request) as sent:
            model = models.current
            loop = asyncio.get_running_loop()
            rows = await loop.run_in_executor(decoding, decoded, sent, model, limits.pixels)
            p, strange = await batches.answer(model, rows)
        metrics.images += len(sent)
        said = _predictions(model, [one.name for one in sent], p, strange, unknown_below or 0.0)
        return JSONResponse({"model": model.digest, "predictions": said})


def _tell_state(
    made: FastAPI, models: Watched, limits: Limits, batches: Batches, metrics: Metrics
) -> None:
    @made.get("/model")
    async def model() -> Card:
        """Tell what the model knows."""
        now = models.current
        return Card(
            model=now.digest, classes=now.classes, lessons=now.lessons, learned=now.learned,
            method=now.method, novelty=now.novelty, reads=list(now.shape), runtime=now.runtime,
            linsep=now.linsep, most=vars(limits),
        )  # fmt: skip

    @made.get("/healthz")
    async def healthz() -> Health:
        """Tell that the server answers."""
        return Health(status="ok", model=models.current.digest)

    @made.get("/metrics", response_class=PlainTextResponse)
    async def counted() -> str:
        """Give counters and histograms as Prometheus reads them."""
        return metrics.text(models.current.digest, batches.waiting, models.swaps, models.failures)


def _show_pages(made: FastAPI) -> None:
    @made.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> Response:
        return _page(PAGE.read_text("utf-8"))

    @made.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs() -> Response:
        return _page(reference(made.openapi()))


def _page(text: str) -> Response:
    return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})


def _predictions(
    model: Served, names: list[str], p: Any, strange: Any, least: float
) -> list[dict[str, Any]]:
    found = []
    for name, row, novelty in zip(names, p.tolist(), strange.tolist(), strict=True):
        most = max(row)
        label = model.classes[row.index(most)] if most >= least else None
        unlike = novelty if math.isfinite(novelty) else None
        found.append({"file": name, "class": label, "probability": most, "novelty": unlike})
    return found


# --- errors ---------------------------------------------------------------------------------------


def _explain_errors(made: FastAPI) -> None:
    """Give every error as JSON; none tells anything of this machine."""

    async def refused(_: Request, problem: Any) -> Response:
        more = {"Connection": "close"} if problem.status in (400, 408) else {}
        return JSONResponse({"error": problem.line}, problem.status, more)

    async def busy(_: Request, error: Any) -> Response:
        line = "too many images wait to be classified; try again in a second"
        return JSONResponse({"error": line}, 503, {"Retry-After": "1"})

    async def http(_: Request, error: Any) -> Response:
        lines = {404: "there is nothing at this path; /docs lists those there are"}
        lines[405] = "this path takes another method; /docs lists them"
        line = lines.get(error.status_code, str(error.detail))
        return JSONResponse({"error": line}, error.status_code, error.headers)

    async def invalid(_: Request, error: Any) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        return JSONResponse({"error": f"{place}: {first['msg']}"}, 422)

    async def broken(_: Request, error: Any) -> Response:
        return JSONResponse({"error": "the server failed; its log has the reason"}, 500)

    made.add_exception_handler(Problem, refused)
    made.add_exception_handler(BusyError, busy)
    made.add_exception_handler(HTTPException, http)
    made.add_exception_handler(RequestValidationError, invalid)
    made.add_exception_handler(Exception, broken)


class Counted:
    """Counts requests by path and status, and how long they take."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: set[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def noting(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self.metrics.under_way += 1
        try:
            await self.app(scope, receive, noting)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.under_way -= 1
            self.metrics.requests[path, status] += 1
            if path == "/predict":
                self.metrics.seconds.add(time.perf_counter() - begun)
