"""`linsep run`, `show`, `log` and `verify`: train one run, look at it, log it, repeat it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from typer import Exit, Option

from ..compare.tables import Table
from ..compare.tables import show as show_table
from ..errors import StateError
from ..learning.metrics import PROTOCOLS
from ..prepare import Prepared, prepare
from ..settings.config import from_settings, to_toml
from ..storage.folder import RunFolder, compared, difference, surroundings
from ..storage.loggers import check, replay, writing
from ..storage.store import open_record
from . import flags
from .overrides import Settings, no_lists, settings_from
from .terminal import INTERRUPTED, TERMINATED, Stop, open_console, say

if TYPE_CHECKING:
    from ..learning.run import Event
    from ..storage.resumable import Resumable
    from ..storage.session import Session

DIFFERS = 1  # exit code


def run(
    config: flags.ConfigFile = None,
    *,
    given: Settings,
    saving: flags.Saving,
) -> None:
    """Train one method on one scenario.

    Stop at any time, and repeat the command to resume.

    Examples:
      linsep run --method derpp+bfp --seed 0
      linsep run example --epochs 2 --set bfp.weight=3
    """
    saving.check()
    settings = no_lists(settings_from(config, given), config)
    prepared = _prepared(settings, saving.quiet)
    if saving.dry_run:
        _plan(prepared, saving)
    else:
        _train(prepared, saving)


def _prepared(settings: dict[str, Any], quiet: bool) -> Prepared:
    from .progress import counting

    with counting("decoding", quiet=quiet) as progress:
        return prepare(from_settings(settings), progress=progress)


def _plan(prepared: Prepared, saving: flags.Saving) -> None:
    """Print the run's config, what it will take, and whether it is new."""
    from .grid import expected

    console, there = open_console(), RunFolder(saving.runs / prepared.name)
    for line in to_toml(prepared.config).splitlines():
        say(console, line)
    for line in expected([prepared], saving) if not there.finished else ():
        say(console, line)
    state = "finished" if there.finished else "half-finished" if there.begun else "new"
    say(console, f"{state:13}  {prepared.name}")


def _train(prepared: Prepared, saving: flags.Saving) -> None:
    from ..storage.session import Session
    from .progress import counting

    console = open_console(saving.quiet)
    where, every = saving.runs, saving.save_every
    session = Session(prepared, where, save_every=every, keep=saving.keep)
    with ExitStack() as opened:
        with counting("features", quiet=saving.quiet) as session.progress:
            opened.enter_context(session)
        if session.finished:
            say(console, f"{prepared.name} is finished already.")
            if saving.keep:
                say(console, "--keep has no effect on a finished run.")
            if saving.log:
                say(console, "To write its log: linsep log RUN --to LOGGER.")
        else:
            watch(session, console, saving.log or ())
    show_result(open_console(), session.results(), session.folder)


def watch(session: Session, console: Console, log: Sequence[str]) -> None:
    """Train with a progress bar, and write the logs."""
    from .progress import cost_of_testing

    assert session.run is not None
    done, total = session.run.steps()
    say(console, session.prepared.name + (f" from step {done} of {total}" if done else ""))
    chosen = session.prepared.config.scenario
    if not (chosen.test_per_class or chosen.validation):
        for line in cost_of_testing([session.run.workload]):
            say(console, line)
    with writing(log, session) as see:
        for event in followed(session, console):
            see(event)


def followed(session: Resumable, console: Console, accuracies: bool = True) -> Iterator[Event]:
    """Yield the events to the end; a signal saves and ends the command."""
    from .progress import watched

    assert session.run is not None
    stopping = Stop()
    with stopping:
        yield from watched(session, console, stopping, accuracies)
    if not session.run.finished:
        say(open_console(), f"Stopped and saved in {session.folder}. Repeat the command to resume.")
        raise Exit(INTERRUPTED if stopping.signal == signal.SIGINT else TERMINATED)


def show_result(console: Console, results: dict[str, Any], folder: Path) -> None:
    from .store import show_variants

    show_variants([folder])
    for flaw in results.get("audit", ()):
        say(console, f"audit: {flaw}")
    say(console, f"Everything is in {folder}")


def show(run: flags.RunName, runs: flags.Runs = Path("runs")) -> None:
    """Show a run: its results first, then its settings."""
    record, console = open_record(run, runs), open_console()
    found = RunFolder(record.folder)
    settings = found.config_text().splitlines()
    if record["status"] == "damaged":
        raise StateError(f"{record.folder} is damaged: {record['progress']}")
    if found.finished:
        results = found.results()
        show_result(console, results, record.folder)
        for protocol, matrix in results.get("matrices", {}).items():
            for table in _matrix(matrix, f"{PROTOCOLS[protocol]} accuracy, %", console.width):
                show_table(table, console)
        if origin := found.manifest().origin:
            say(console, f"Made elsewhere and imported from the bundle {origin.bundle}.")
    else:
        say(console, f"Not finished: {record['progress']}.")
    for line in ("Settings:", *settings):
        say(console, line)


def _matrix(matrix: Sequence[Sequence[float | None]], caption: str, width: int) -> list[Table]:
    """The accuracies after each task, in as many tables as the width asks for."""
    across = max(1, (width - len(" task 100  ")) // len("on task 10  "))
    tables = []
    for first in range(0, len(matrix), across):
        shown = range(first, min(first + across, len(matrix)))
        shares = [[row[i] for i in shown] for row in matrix]
        percent = [[None if share is None else 100 * share for share in row] for row in shares]
        rows = [(f"task {task}", *row) for task, row in enumerate(percent, start=1)]
        columns = ("after", *(f"on task {i + 1}" for i in shown))
        tables.append(Table(columns, rows[first:], caption=caption, digits=1))
    return tables


def log(
    chosen: flags.Selection,
    *,
    to: Annotated[str, Option(metavar="LOGGER", help=flags.LOGGERS)],
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="DIR", help="Folder. Default: each run's own."),
    ] = None,
) -> None:
    """Write runs' records to TensorBoard, Weights & Biases or MLflow.

    Examples:
      linsep log RUN --to tensorboard -o logs
      linsep log --where "scenario=fashion-mini" --to tensorboard -o logs
    """
    check(to)
    records = chosen.records()
    for record in records:
        replay(to, record.folder, output)
    own = records[0].folder if len(records) == 1 else f"the folder of each of {len(records)} runs"
    say(open_console(), f"Written to {output or own}")


def verify(
    run: flags.RunName,
    runs: flags.Runs = Path("runs"),
    data: flags.Data = None,
    custom: flags.Custom = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Repeat a finished run and report whether it agrees bit for bit.

    Repeat the command to resume it after a stop. It exits with 1 if the runs differ.

    Example:
      linsep verify RUN --data DIR
    """
    from ..analysis.features import reopen
    from ..storage.session import Session

    record, console = open_record(run, runs), open_console()
    first = RunFolder(record.folder)
    prepared = reopen(record.folder, data=data, custom=custom or (), to_train=True)
    with Session(prepared, runs / ".verify", keep="end") as session:
        if not session.finished:
            watch(session, open_console(quiet), [])
    second = RunFolder(session.folder)
    found = difference(first, second)
    if found is None:
        shutil.rmtree(session.folder)
        with suppress(OSError):  # other repeated runs are in it
            session.folder.parent.rmdir()
        say(console, f"{record.name} repeats bit for bit: {', '.join(compared(first))}.")
        return
    say(console, f"{record.name} does not repeat: {found}.")
    for line in surroundings(first, second) or ["No difference between the machines is on record."]:
        say(console, f"  {line}")
    say(console, f"The repeated run is in {session.folder}.")
    raise Exit(DIFFERS)
