"""`linsep run`: train one method, with a progress bar."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option

from ..errors import ConfigError
from . import flags
from .terminal import INTERRUPTED, TERMINATED, Stop, open_console, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..prepare import Prepared
    from ..storage.session import Session

PRESET = "paper (the text) or authors (their program)."
CELL = "The paper's hyper-parameters: split-cifar100/500/lucir"


def run(
    config: flags.ConfigFile = None,
    *,
    scenario: Annotated[str | None, Option(help="What to learn: `linsep list scenarios`.")] = None,
    method: Annotated[str | None, Option(help="How to learn it: er, derpp, derpp+bfp, ...")] = None,
    memory: Annotated[int | None, Option(help="Images kept from earlier tasks.")] = None,
    seed: Annotated[int | None, Option(help="Seed of all random numbers.")] = None,
    epochs: Annotated[int | None, Option(help="Epochs per task.")] = None,
    lr: Annotated[float | None, Option(help="Learning rate.")] = None,
    batch_size: Annotated[int | None, Option(help="Images per step.")] = None,
    net: Annotated[str | None, Option(help="cnn, mlp, resnet18, timm/..., and more.")] = None,
    width: Annotated[int | None, Option(help="Width of the net; ResNet-18's own is 64.")] = None,
    data: Annotated[str | None, Option(help="Folder or file that holds the images.")] = None,
    per_class: Annotated[int | None, Option(help="Train on fewer images of each class.")] = None,
    preset: Annotated[str | None, Option(help=PRESET)] = None,
    paper: Annotated[str | None, Option(metavar="CELL", help=CELL)] = None,
    device: Annotated[str | None, Option(help="auto, cpu, cuda or mps.")] = None,
    threads: Annotated[int | None, Option(help="CPU threads per run. Default: 1.")] = None,
    saving: flags.Saving,
    keep: flags.Keep = None,
    log: Annotated[list[str] | None, Option(metavar="LOGGER", help=flags.LOGGERS)] = None,
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
    prepared = _prepared(config, given, set_, paper, saving.quiet)
    _train(prepared, saving, keep, log or [])


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


def _train(prepared: Prepared, saving: flags.Saving, keep: flags.Keep, log: list[str]) -> None:
    from ..storage.loggers import check
    from ..storage.session import Session

    for kind in log:
        check(kind)
    console = open_console(saving.quiet)
    with Session(prepared, saving.runs, save_every=saving.save_every, keep=keep) as session:
        if session.finished:
            say(console, f"{prepared.name} is finished already.")
            if keep:
                say(console, "--keep has no effect on a finished run.")
            if log:
                say(console, "To write its log: linsep log RUN --to LOGGER.")
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
        raise Exit(INTERRUPTED if stopping.signal == signal.SIGINT else TERMINATED)


def show_result(console: Console, results: dict[str, Any], folder: Path) -> None:
    from .store import show_arms

    show_arms([folder])
    for flaw in results.get("audit", ()):
        say(console, f"audit: {flaw}")
    say(console, f"Everything is in {folder}")
