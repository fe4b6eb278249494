"""`linsep run`: from words to one run, watched and stoppable."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from ..errors import ConfigError, printable, unknown
from ..settings import sections
from .terminal import INTERRUPTED, TERMINATED, Stop, open_console, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..storage.session import Session

File = Annotated[
    Path | None, typer.Argument(metavar="[CONFIG.toml]", help="Settings; flags override them.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Any field: training.momentum=0.9, bfp.weight=3, ..."
    ),
]
Runs = Annotated[Path, typer.Option(help="Folder that holds the runs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the result and errors.")]
SaveEvery = Annotated[float, typer.Option(min=0, help="Seconds between saves within an epoch.")]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="Snapshots for `linsep analyse`: of the end, all tasks or all epochs; tasks if the "
        "net is small.",
    ),
]


def run(
    config: File = None,
    scenario: Annotated[str | None, typer.Option(help="What to learn: `linsep list`.")] = None,
    method: Annotated[str | None, typer.Option(help="How, e.g. er, derpp, derpp+bfp.")] = None,
    memory: Annotated[int | None, typer.Option(help="Images kept of the past.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Per task.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    net: Annotated[str | None, typer.Option(help="cnn, mlp, resnet18, timm/..., ...")] = None,
    width: Annotated[int | None, typer.Option(help="Of the net; 64 is ResNet-18's own.")] = None,
    data: Annotated[str | None, typer.Option(help="Where the images are.")] = None,
    per_class: Annotated[int | None, typer.Option(help="Use fewer images of each class.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="paper (the text) or authors (their program).")
    ] = None,
    paper: Annotated[
        str | None,
        typer.Option(metavar="CELL", help="Its hyper-parameters: split-cifar100/500/lucir"),
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads.")] = None,
    runs: Runs = Path("runs"),
    save_every: SaveEvery = 30.0,
    keep: Keep = None,
    log: Annotated[
        list[str] | None, typer.Option(metavar="LOGGER", help="tensorboard, wandb or mlflow.")
    ] = None,
    quiet: Quiet = False,
    set_: Set = None,
) -> None:
    """Train one method on one scenario; stop and repeat the command to go on.

    [bold]Examples[/bold]

      linsep run --method derpp+bfp --seed 0

      linsep run --scenario split-cifar10 --method derpp+bfp --memory 200 --device cuda

      linsep run configs/fashion-mini.toml --set training.epochs=2 --set bfp.weight=3
    """
    from ..paper.protocol import named
    from ..prepare import gathered, prepare
    from ..settings.config import from_settings
    from ..settings.layers import assignment, merged, nested, read
    from ..storage.loggers import check
    from ..storage.session import Session
    from .progress import counting

    kept = checked_keep(keep)
    for kind in log or ():
        check(kind)

    flags = {
        "scenario.name": scenario, "method": method, "memory.rows": memory, "seed": seed,
        "training.epochs": epochs, "training.lr": lr, "training.batch_size": batch_size,
        "net.name": net, "net.width": width, "scenario.data": data,
        "scenario.per_class": per_class, "preset": preset, "compute.device": device,
        "compute.threads": threads,
    }  # fmt: skip
    given = [nested(name, value) for name, value in flags.items() if value is not None]
    settings = merged(read(config) if config else {}, *given, *map(assignment, set_ or ()))
    if paper is not None:
        settings = merged(named(paper, settings.get("preset", "paper")), settings)
    settings.pop("search", None)
    if "over" in settings:
        raise ConfigError(f"{config}: has lists under [over]; use `linsep grid {config}`")
    with counting("decoding") as progress:
        prepared = prepare(from_settings(gathered(settings)), progress=progress)
    console = open_console()
    with Session(prepared, runs, save_every=save_every, keep=kept) as session:
        if session.finished:
            say(console, quiet, f"{prepared.name} is finished already.")
            if kept:
                say(console, quiet, "--keep has no effect on a finished run.")
            if log:
                say(console, quiet, "For its log: linsep export RUN --to LOGGER.")
        else:
            _train(session, console, quiet, log or [])
    show_result(console, session.results(), session.folder)


def checked_keep(keep: str | None) -> sections.Keep | None:
    """The word as the library knows it."""
    allowed = get_args(sections.Keep)
    if keep is not None and keep not in allowed:
        raise ConfigError(f"--keep: {unknown('kind', keep, allowed)}")
    return cast("sections.Keep | None", keep)


def _train(session: Session, console: Console, quiet: bool, log: Sequence[str] = ()) -> None:
    from ..learning.run import StepEnd
    from ..storage.loggers import start
    from ..storage.session import event_record
    from .progress import Watcher

    assert session.run is not None
    done, total = session.run.steps()
    went_on = f" from step {done} of {total}" if done else ""
    say(console, quiet, f"{session.prepared.name}{went_on}")
    stopping = Stop()
    watcher = None if quiet else Watcher(session.run, console)
    with ExitStack() as opened, stopping:
        logs = [opened.enter_context(start(kind, session.folder)) for kind in log]
        try:
            if watcher:
                watcher.__enter__()
            for event in session:
                if watcher:
                    watcher.see(event)
                if not isinstance(event, StepEnd):
                    for told in logs:
                        told.see(event_record(event, session.run))
                if stopping.signal is not None and not session.run.finished:
                    session.save()
                    break
        finally:
            if watcher:
                watcher.__exit__(None, None, None)
        for told in logs if session.finished else ():
            told.finish(session.results())
    if not session.finished:
        console.print(
            f"Stopped and saved in {session.folder}. Repeat the command to go on from there.",
            highlight=False,
            soft_wrap=True,
        )
        raise typer.Exit(INTERRUPTED if stopping.signal == signal.SIGINT else TERMINATED)


def show_result(console: Console, results: dict[str, Any], folder: Path) -> None:
    from .store import show_arms

    show_arms([folder])
    for flaw in results.get("audit", ()):
        console.print(f"audit: {flaw}", markup=False)
    say(console, False, f"Everything is in {printable(str(folder))}")
