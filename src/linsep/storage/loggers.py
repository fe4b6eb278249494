"""Loggers: write a run's records to TensorBoard, Weights & Biases or MLflow.

    loss/<term>               at every epoch's end; loss/<stage>/<term> outside the training stage
    class_il/task 1 ...       at every task's end, in percent, and class_il/average; task_il alike
    final/class_il.faa ...    once, at the end

A logger consumes records as events.jsonl holds them, so a log written while a run is under way and
one replayed from its folder hold the same scalars. The libraries are imported when they are asked
for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..errors import ConfigError, unknown
from ..learning.metrics import PROTOCOLS
from ..optional import needed
from .folder import RunFolder
from .store import flat, read_facts

if TYPE_CHECKING:
    from ..learning.run import Event
    from .session import Session

Record = Mapping[str, Any]


class Scalar(NamedTuple):
    name: str
    value: float
    axis: str  # what `at` counts: "step" of training, or "task"
    at: int


class Sink(Protocol):
    """Where scalars go."""

    def write(self, scalar: Scalar) -> None: ...

    def close(self) -> None: ...


class Log:
    """One run's log: `see` its records in order, `finish` with its results."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._steps = self._tasks = 0  # so far

    def see(self, record: Record) -> None:
        for scalar in self._scalars(record):
            self.sink.write(scalar)

    def finish(self, results: Record) -> None:
        for name, value in flat(results["metrics"]).items():
            if isinstance(value, int | float):  # and not undefined
                self.sink.write(Scalar(f"final/{name}", value, "task", self._tasks))

    def _scalars(self, record: Record) -> Iterator[Scalar]:
        if record["event"] == "epoch_end":
            self._steps += record["steps"]
            stage = "" if record["stage"] == "train" else f"{record['stage']}/"
            for term, loss in record["losses"].items():
                yield Scalar(f"loss/{stage}{term}", loss, "step", self._steps)
        elif record["event"] == "task_end":
            self._tasks = record["group"] + 1
            for protocol in PROTOCOLS:
                known = [(i, s) for i, s in enumerate(record[protocol], start=1) if s is not None]
                each = {f"task {i}": share for i, share in known}
                if known:
                    each["average"] = sum(each.values()) / len(each)
                for name, share in each.items():
                    yield Scalar(f"{protocol}/{name}", 100 * share, "task", self._tasks)


def check(kind: str) -> None:
    """Refuse an unknown logger, or one whose library is not installed."""
    if kind not in LOGGERS:
        raise ConfigError(unknown("logger", kind, LOGGERS))
    needed(kind, "the log")


@contextmanager
def start(kind: str, folder: Path, where: Path | None = None) -> Iterator[Log]:
    """A log for the run in a folder, with what was recorded there so far already in it."""
    check(kind)
    with closing(LOGGERS[kind](folder, where or folder)) as sink:
        log = Log(sink)
        for record in RunFolder(folder).events():
            log.see(record)
        yield log


@contextmanager
def writing(kinds: Sequence[str], session: Session) -> Iterator[Callable[[Event], None]]:
    """Loggers that are told every event of a session, and its results once it has finished."""
    from ..learning.run import Recorded
    from .session import event_record

    with ExitStack() as opened:
        logs = [opened.enter_context(start(kind, session.folder)) for kind in kinds]

        def see(event: Event) -> None:
            if isinstance(event, Recorded):
                for log in logs:
                    log.see(event_record(event))

        yield see
        for log in logs if session.finished else ():
            log.finish(session.results())


def replay(kind: str, folder: Path, where: Path | None = None) -> None:
    """Write the log of a run that has been made, from its folder alone."""
    run = RunFolder(folder)
    with start(kind, folder, where) as log:
        if run.finished:
            log.finish(run.results())


class TensorBoard:
    """Event files in `<where>/tensorboard`; those of an earlier try are replaced."""

    def __init__(self, folder: Path, where: Path) -> None:
        files = needed("tensorboard.summary.writer.event_file_writer", "the log")
        self._event = needed("tensorboard.compat.proto.event_pb2", "the log").Event
        self._summary = needed("tensorboard.compat.proto.summary_pb2", "the log").Summary
        place = where / "tensorboard" if where == folder else where / folder.name
        for old in place.glob("events.out.tfevents.*"):
            with suppress(OSError):
                old.unlink()
        self._file = files.EventFileWriter(str(place))

    def write(self, scalar: Scalar) -> None:
        value = self._summary.Value(tag=scalar.name, simple_value=scalar.value)
        summary = self._summary(value=[value])
        self._file.add_event(self._event(wall_time=time.time(), step=scalar.at, summary=summary))

    def close(self) -> None:
        self._file.close()


class Wandb:
    """A run of the project "linsep"; WANDB_MODE=offline writes it to `<where>/wandb` only."""

    def __init__(self, folder: Path, where: Path) -> None:
        wandb = needed("wandb", "the log")
        where.mkdir(parents=True, exist_ok=True)
        facts = read_facts(folder)
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "linsep"),
                name=folder.name,
                group=f"{facts.get('scenario.name')}/{facts.get('method')}",
                config=facts,
                dir=str(where),
                settings=wandb.Settings(silent=True),
            )
        except wandb.errors.Error as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"wandb: {reason} (WANDB_MODE=offline needs no account)") from None
        axes = {"loss/*": "step"} | {f"{protocol}/*": "task" for protocol in PROTOCOLS}
        for names, axis in axes.items():
            self._run.define_metric(axis)
            self._run.define_metric(names, step_metric=axis)

    def write(self, scalar: Scalar) -> None:
        if scalar.name.startswith("final/"):
            self._run.summary[scalar.name] = scalar.value
        else:
            self._run.log({scalar.name: scalar.value, scalar.axis: scalar.at})

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """A run of the experiment "linsep", in MLFLOW_TRACKING_URI or else in `<where>/mlruns`."""

    def __init__(self, folder: Path, where: Path) -> None:
        self._mlflow = needed("mlflow", "the log")
        if "MLFLOW_TRACKING_URI" not in os.environ:
            self._mlflow.set_tracking_uri((where / "mlruns").resolve().as_uri())
        self._mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "linsep"))
        self._mlflow.start_run(run_name=folder.name)
        self._mlflow.log_params(read_facts(folder))

    def write(self, scalar: Scalar) -> None:
        self._mlflow.log_metric(scalar.name, scalar.value, step=scalar.at)

    def close(self) -> None:
        self._mlflow.end_run()


Opener = Callable[[Path, Path], Sink]
LOGGERS: dict[str, Opener] = {"tensorboard": TensorBoard, "wandb": Wandb, "mlflow": MLflow}
