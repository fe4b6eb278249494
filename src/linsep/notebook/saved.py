"""One run in its folder: its settings and results, its net, its predictions; and what notebooks
display: tables and pictures as HTML, in which all text is escaped and nothing is executed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cached_property
from html import escape
from importlib.util import find_spec
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..compare.tables import Table, Value
from ..errors import ConfigError, DataError, StateError, unknown
from ..learning.metrics import METRICS, PROTOCOLS, REPORTED
from ..optional import needed
from ..settings.config import Config, from_settings
from ..storage.folder import RunFolder
from ..storage.store import Record, open_record

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..data.images import Dataset, Images
    from ..learning.learner import Learner
    from ..nets.net import Net
    from ..prepare import Prepared

Matrix = NDArray[np.float64]
MOST_TASKS = 20  # whose accuracies a notebook shows
INCHES = (6.4, 3.6)  # of a picture


def load(
    run: str | PathLike[str],
    *,
    runs: str | PathLike[str] = "runs",
    data: Dataset | str | PathLike[str] | None = None,
    net: nn.Module | None = None,
    custom: Sequence[str] = (),
) -> SavedRun:
    """Open a finished run by its folder, or by its name or key under `runs`.

    >>> import linsep
    >>> config = {"scenario": "blobs", "method": "er", "memory": 20, "training": {"epochs": 1}}
    >>> name = linsep.train(config).name
    >>> run = linsep.load(name)
    >>> run.accuracy.shape
    (5, 5)

    Results are read at once. The net and `predict` also need the data that the run was made with:
    `data` is where the images are now if they were moved, or the data set that was handed to
    `train`; `net` is the backbone that was. Code of yours that the run names, a method or a net,
    is executed only if you name its file in `custom`: `custom=["mine.py"]`.
    """
    record = open_record(Path(run), Path(runs))
    if record["status"] == "damaged":
        raise StateError(f"{record.folder} is damaged: {record['progress']}")
    if not record.finished:
        raise StateError(
            f"{record.name} is not finished ({record['progress']}); "
            "train it with the same settings to resume it"
        )
    return SavedRun(record, data=data, net=net, custom=custom)


class SavedRun:
    """A run in its folder, as `linsep.train`, `linsep.load` and `linsep.runs` give it.

    >>> import numpy as np
    >>> import linsep
    >>> run = linsep.train({"scenario": "blobs", "method": "er", "training.epochs": 1})
    >>> sorted(run.metrics)
    ['class_il', 'task_il']
    >>> run.metrics["class_il"]["faa"] > 0
    True
    >>> run.predict(np.zeros((2, 8, 8), np.uint8)).shape  # images of the size it was trained on
    (2,)
    """

    def __init__(
        self,
        record: Record,
        *,
        prepared: Prepared | None = None,
        data: Dataset | str | PathLike[str] | None = None,
        net: nn.Module | None = None,
        custom: Sequence[str] = (),
    ) -> None:
        self.record = record
        self._prepared, self._data, self._module, self._own = prepared, data, net, custom

    # --- what it is ------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.record.folder

    @property
    def name(self) -> str:
        """The name of its folder: scenario, method, memory, seed and key."""
        return self.record.name

    @property
    def key(self) -> str:
        """The digest of everything that decides the run's numbers."""
        return str(self.results["key"])

    @property
    def finished(self) -> bool:
        """Whether it has learned every task."""
        return self.record.finished

    @cached_property
    def config(self) -> Config:
        """Every setting of the run, including those that were left at their defaults."""
        return from_settings(RunFolder(self.folder).config())

    # --- what came out ---------------------------------------------------------------------------

    @cached_property
    def results(self) -> dict[str, Any]:
        """The content of results.json; StateError if the run is not finished."""
        if self.record["status"] == "unfinished":
            raise StateError(f"{self.name} is not finished: {self.record['progress']}")
        return RunFolder(self.folder).results()

    @property
    def metrics(self) -> dict[str, dict[str, float | None]]:
        """In percent, by setting and name: `run.metrics["class_il"]["faa"]`; docs/metrics.md."""
        return {protocol: dict(found) for protocol, found in self.results["metrics"].items()}

    @property
    def cost(self) -> dict[str, Any]:
        """The content of cost.json; empty for a run made before there was one; docs/cost.md."""
        return RunFolder(self.folder).cost()

    @property
    def accuracy(self) -> Matrix:
        """Class-IL accuracy (T, T) from 0 to 1: row = after task t, column = on task i.

        NaN where nothing was measured. `linsep.metrics` computes every metric from it.
        """
        return self._matrix("class_il")

    @property
    def task_il_accuracy(self) -> Matrix:
        """The same in Task-IL."""
        return self._matrix("task_il")

    def accuracy_frame(self, protocol: str = "class_il") -> Any:
        """The accuracy matrix in percent as a pandas DataFrame; `protocol` may be "task_il"."""
        pandas = needed("pandas", "accuracy_frame")
        matrix = 100 * self._matrix(protocol)
        after, on = (
            [f"{word} task {t + 1}" for t in range(len(matrix))] for word in ("after", "on")
        )
        return pandas.DataFrame(matrix, index=after, columns=on)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order in which they were learned."""
        return tuple(self._recorded("classes"))

    @property
    def tasks(self) -> tuple[tuple[str, ...], ...]:
        """The names of the classes of each task."""
        names = self.classes
        return tuple(tuple(names[c] for c in group) for group in self._recorded("groups"))

    def plot(self, protocol: str = "class_il", axes: Any = None) -> Any:
        """Draw the accuracy on each task after each task, and the average over the tasks so far;
        return matplotlib's axes."""
        matrix, axes = self._matrix(protocol), new_axes(axes)
        moments = np.arange(1, len(matrix) + 1)
        for task, column in enumerate(100 * matrix.T):
            known = ~np.isnan(column)
            label = f"task {task + 1}"
            axes.plot(moments[known], column[known], marker=".", alpha=0.5, label=label)
        means = [(t + 1, 100 * row[: t + 1].mean()) for t, row in enumerate(matrix)]
        seen = [(t, mean) for t, mean in means if not np.isnan(mean)]
        axes.plot(*zip(*seen, strict=True), color="black", linewidth=2, marker="o", label="average")
        return labelled(axes, f"{self.name}, {PROTOCOLS[protocol]}")

    # --- the net ---------------------------------------------------------------------------------

    @property
    def net(self) -> Net:
        """The network with its final weights, in evaluation mode; it reads normalised images."""
        return self._learner.eval_net.eval()

    def predict(self, images: Any) -> NDArray[np.str_]:
        """Name the class of each image, as the method predicts, among all classes learned.

        `images` are bytes or floats from 0 to 1 of shape (n, h, w), (n, h, w, c) or (n, c, h, w),
        as an array or a tensor, of the size that the run was trained on; or a data set, whose test
        images are meant.
        """
        scores = self._learner.predict(self._readable(images))
        names = np.array(self.prepared.data.scenario.names)
        return names[scores.argmax(1).cpu().numpy()]

    # --- the inside ------------------------------------------------------------------------------

    @cached_property
    def prepared(self) -> Prepared:
        """The run's config with its data, opened again."""
        from ..analysis.features import reopen

        if self._prepared is not None:
            return self._prepared
        return reopen(self.folder, data=self._data, net=self._module, custom=self._own)

    @cached_property
    def _learner(self) -> Learner:
        from ..storage import snapshots

        ends = [s for s in snapshots.found(self.folder) if s.ends_task]
        last = len(self._recorded("groups"))
        if not ends or ends[-1].task != last - 1:
            raise StateError(
                f"{self.folder} was kept without its final weights: there is no "
                f"{snapshots.FOLDER}/task{last:02}.safetensors; results can be read, but `net` and "
                "`predict` need it"
            )
        learner = self.prepared.learner()
        snapshots.restore(ends[-1], learner)
        return learner

    def _readable(self, images: Any) -> Images:
        import torch

        from ..data.decoding import reading
        from ..data.images import Dataset, Images
        from ..data.reading import pixels_of, vectors_of

        if isinstance(images, Dataset):
            images = images.test
        if not isinstance(images, Images):
            with reading("predict", "takes images of one shape"):
                read = vectors_of if np.ndim(images) == 2 else pixels_of
                rows: Tensor = read(images, "predict")
            images = Images.of(rows, torch.zeros(len(rows), dtype=torch.int64))
        expected = self.prepared.data.scenario.shape
        if images.shape != expected:
            found, wanted = ("x".join(map(str, shape)) for shape in (images.shape, expected))
            raise DataError(
                f"predict: images are {found} (channels, height, width); {self.name} was trained "
                f"on {wanted}"
            )
        return images

    def _matrix(self, protocol: str) -> Matrix:
        if protocol not in PROTOCOLS:
            raise ConfigError(unknown("protocol", protocol, PROTOCOLS))
        rows = self._recorded("matrices").get(protocol, [])
        return np.array(rows, dtype=np.float64)  # None becomes NaN

    def _recorded(self, name: str) -> Any:
        """A part of the results that very old folders lack."""
        if name not in self.results:
            raise StateError(f"{self.folder}: results.json was written without {name!r}")
        return self.results[name]

    def __repr__(self) -> str:
        if not self.finished:
            return f"SavedRun({self.name!r}, {self.record['status']}: {self.record['progress']})"
        numbers = self.metrics["class_il"]
        found = (f"{METRICS[m].title} {_text(numbers[m])}" for m in REPORTED)
        return f"SavedRun({self.name!r}, {', '.join(found)})"

    def _repr_html_(self) -> str:
        if not self.finished:
            return as_html(repr(self), [])
        rows: list[list[Value]] = [
            [spelled, *(self.metrics[protocol][name] for name in REPORTED)]
            for protocol, spelled in PROTOCOLS.items()
        ]
        tables, image = [Table(["in %", *(METRICS[name].title for name in REPORTED)], rows)], ""
        if len(self.results.get("groups", ())) in range(1, MOST_TASKS + 1):
            percent = [[None if np.isnan(v) else 100 * float(v) for v in r] for r in self.accuracy]
            body = [[f"after task {t}", *row] for t, row in enumerate(percent, start=1)]
            columns = ["Class-IL accuracy, %", *(f"on task {t + 1}" for t in range(len(body)))]
            tables.append(Table(columns, body, digits=1))
            alternative = "Accuracy on each task after each task"
            image = picture(lambda axes: self.plot(axes=axes), alternative)
        return as_html(self.name, tables, image=image)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


# --- what notebooks display ----------------------------------------------------------------------


def as_html(title: str, tables: Sequence[Table], notes: Sequence[str] = (), image: str = "") -> str:
    """A title, tables one below another, a picture, and notes in small type."""
    parts = [f"<p><b>{escape(title)}</b></p>"] if title else []
    parts += [table.to_html() for table in tables]
    parts += [image]
    parts += [f"<p><small>{escape(note)}</small></p>" for note in notes]
    return f"<div>{''.join(parts)}</div>"


def picture(draw: Callable[[Any], object], alternative: str) -> str:
    """The lines that `draw` puts into matplotlib's axes, as an <img>; nothing without any."""
    if find_spec("matplotlib") is None:
        return ""
    from matplotlib.figure import Figure  # not pyplot's, which a notebook would show once more

    figure, content = Figure(figsize=INCHES, layout="constrained"), BytesIO()
    axes = figure.subplots()
    draw(axes)
    if not axes.lines:
        return ""
    figure.savefig(content, format="png", dpi=100)
    data = b64encode(content.getvalue()).decode("ascii")
    return f'<p><img alt="{escape(alternative)}" src="data:image/png;base64,{data}"></p>'


def new_axes(axes: Any) -> Any:
    """Matplotlib's axes to draw in: those given, or of a new figure."""
    if axes is not None:
        return axes
    return needed("matplotlib.pyplot", "plot").subplots(layout="constrained")[1]


def labelled(axes: Any, title: str) -> Any:
    axes.set_title(title)
    axes.set_xlabel("tasks learned")
    axes.set_ylabel("accuracy, %")
    axes.xaxis.get_major_locator().set_params(integer=True)
    if axes.lines:
        axes.legend()
    return axes
