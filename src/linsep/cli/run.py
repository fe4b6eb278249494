"""`linsep run`: train one method, with a progress bar."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option

from . import flags
from .overrides import Settings, no_lists, settings_from
from .terminal import INTERRUPTED, TERMINATED, Stop, open_console, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..prepare import Prepared
    from ..storage.session import Session


def run(
    config: flags.ConfigFile = None,
    *,
    given: Settings,
    dry_run: flags.DryRun = False,
    saving: flags.Saving,
    keep: flags.Keep = None,
    log: Annotated[list[str] | None, Option(metavar="LOGGER", help=flags.LOGGERS)] = None,
) -> None:
    """Train one method on one scenario. Stop at any time, and repeat the command to resume.

    [bold]Examples[/bold]

      linsep run --method derpp+bfp --seed 0

      linsep run example --epochs 2 --set bfp.weight=3
    """
    from ..storage.loggers import check

    for kind in log or ():
        check(kind)
    settings = no_lists(settings_from(config, given), config)
    prepared = _prepared(settings, saving.quiet)
    if dry_run:
        _plan(prepared, saving)
    else:
        _train(prepared, saving, keep, log or [])


def _prepared(settings: dict[str, Any], quiet: bool) -> Prepared:
    from ..prepare import prepare
    from ..settings.config import from_settings
    from .progress import counting

    with counting("decoding", quiet=quiet) as progress:
        return prepare(from_settings(settings), progress=progress)


def _plan(prepared: Prepared, saving: flags.Saving) -> None:
    """Print the run's config and whether it is new."""
    from ..settings.config import to_toml
    from ..storage.folder import RunFolder

    console, there = open_console(), RunFolder(saving.runs / prepared.name)
    for line in to_toml(prepared.config).splitlines():
        say(console, line)
    state = "finished" if there.finished else "half-finished" if there.begun else "new"
    say(console, f"{state:13}  {prepared.name}")


def _train(prepared: Prepared, saving: flags.Saving, keep: flags.Keep, log: list[str]) -> None:
    from ..storage.session import Session

    console = open_console(saving.quiet)
    with Session(prepared, saving.runs, save_every=saving.save_every, keep=keep) as session:
        if session.finished:
            say(console, f"{prepared.name} is finished already.")
            if keep:
                say(console, "--keep has no effect on a finished run.")
            if log:
                say(console, "To write its log: linsep log RUN --to LOGGER.")
        else:
            watch(session, console, log)
    show_result(open_console(), session.results(), session.folder)


def watch(session: Session, console: Console, log: Sequence[str]) -> None:
    """Train with a progress bar; a signal saves the run and ends the command."""
    from ..learning.run import Recorded
    from ..storage.loggers import start
    from ..storage.session import event_record
    from .progress import Watcher, cost_of_testing

    assert session.run is not None
    done, total = session.run.steps()
    say(console, session.prepared.name + (f" from step {done} of {total}" if done else ""))
    chosen = session.prepared.config.scenario
    if not (chosen.test_per_class or chosen.validation):
        for line in cost_of_testing([session.run.workload]):
            say(console, line)
    stopping = Stop()
    with ExitStack() as opened, stopping:
        logs = [opened.enter_context(start(kind, session.folder)) for kind in log]
        watcher = Watcher(session.run, console)
        with watcher.bar:
            for event in session:
                watcher.see(event)
                if isinstance(event, Recorded):
                    for written in logs:
                        written.see(event_record(event))
                if stopping.signal is not None and not session.run.finished:
                    session.save()
                    break
        for written in logs if session.finished else ():
            written.finish(session.results())
    if not session.finished:
        say(open_console(), f"Stopped and saved in {session.folder}. Repeat the command to resume.")
        raise Exit(INTERRUPTED if stopping.signal == signal.SIGINT else TERMINATED)


def show_result(console: Console, results: dict[str, Any], folder: Path) -> None:
    from .store import show_variants

    show_variants([folder])
    for flaw in results.get("audit", ()):
        say(console, f"audit: {flaw}")
    say(console, f"Everything is in {folder}")
