"""`linsep run`: one run, watched and stoppable."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import ConfigError
from . import flags
from .terminal import INTERRUPTED, TERMINATED, Stop, open_console, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..prepare import Prepared
    from ..storage.session import Session


def run(
    config: flags.ConfigFile = None,
    scenario: flags.Scenario = None,
    method: flags.Method = None,
    memory: flags.Memory = None,
    seed: flags.Seed = None,
    epochs: flags.Epochs = None,
    lr: flags.Rate = None,
    batch_size: flags.BatchSize = None,
    net: flags.Net = None,
    width: flags.Width = None,
    data: flags.Data = None,
    per_class: flags.PerClass = None,
    preset: flags.Preset = None,
    paper: flags.PaperCell = None,
    device: flags.Device = None,
    threads: flags.Threads = None,
    runs: flags.Runs = Path("runs"),
    save_every: flags.SaveEvery = 30.0,
    keep: flags.Keep = None,
    log: flags.Logs = None,
    quiet: flags.Quiet = False,
    set_: flags.Set = None,
) -> None:
    """Train one method on one scenario. Stop at any time, and repeat the command to resume.

    linsep run --method derpp+bfp --seed 0

    linsep run configs/fashion-mini.toml --set training.epochs=2 --set bfp.weight=3
    """
    given = {
        "scenario.name": scenario, "method": method, "memory.rows": memory, "seed": seed,
        "training.epochs": epochs, "training.lr": lr, "training.batch_size": batch_size,
        "net.name": net, "net.width": width, "scenario.data": data, "preset": preset,
        "scenario.per_class": per_class, "compute.device": device, "compute.threads": threads,
    }  # fmt: skip
    _train(_prepared(config, given, set_, paper, quiet), runs, save_every, keep, log or [], quiet)


def _prepared(
    config: Path | None, given: dict[str, Any], set_: flags.Set, paper: str | None, quiet: bool
) -> Prepared:
    from ..paper.protocol import named
    from ..prepare import prepare
    from ..resolve import gathered
    from ..settings.config import from_settings
    from ..settings.layers import merged, nested
    from .progress import counting

    layers = [nested(field, value) for field, value in given.items() if value is not None]
    settings = flags.settings_from(config, layers, set_)
    if "over" in settings:
        raise ConfigError(f"{config}: has lists under [over]; use `linsep grid {config}`")
    if paper is not None:
        settings = merged(named(paper, settings.get("preset", "paper")), settings)
    with counting("decoding", quiet=quiet) as progress:
        return prepare(from_settings(gathered(settings)), progress=progress)


def _train(
    prepared: Prepared, runs: Path, save_every: float, keep: flags.Keep, log: list[str], quiet: bool
) -> None:
    from ..storage.loggers import check
    from ..storage.session import Session

    for kind in log:
        check(kind)
    console = open_console(quiet)
    with Session(prepared, runs, save_every=save_every, keep=keep) as session:
        if session.finished:
            say(console, f"{prepared.name} is finished already.")
            if keep:
                say(console, "--keep has no effect on a finished run.")
            if log:
                say(console, "To write its log: linsep export RUN --to LOGGER.")
        else:
            _watch(session, console, log)
    show_result(open_console(), session.results(), session.folder)


def _watch(session: Session, console: Console, log: Sequence[str]) -> None:
    from ..learning.run import StepEnd
    from ..storage.loggers import start
    from ..storage.session import event_record
    from .progress import Watcher

    assert session.run is not None
    done, total = session.run.steps()
    say(console, session.prepared.name + (f" from step {done} of {total}" if done else ""))
    stopping = Stop()
    with ExitStack() as opened, stopping:
        logs = [opened.enter_context(start(kind, session.folder)) for kind in log]
        watcher = Watcher(session.run, console)
        with watcher.bar:
            for event in session:
                watcher.see(event)
                if not isinstance(event, StepEnd):
                    for written in logs:
                        written.see(event_record(event, session.run))
                if stopping.signal is not None and not session.run.finished:
                    session.save()
                    break
        for written in logs if session.finished else ():
            written.finish(session.results())
    if not session.finished:
        say(open_console(), f"Stopped and saved in {session.folder}. Repeat the command to resume.")
        raise typer.Exit(INTERRUPTED if stopping.signal == signal.SIGINT else TERMINATED)


def show_result(console: Console, results: dict[str, Any], folder: Path) -> None:
    from .store import show_arms

    show_arms([folder])
    for flaw in results.get("audit", ()):
        say(console, f"audit: {flaw}")
    say(console, f"Everything is in {folder}")
