"""`linsep run` and `linsep grid`: from words to runs, watched and stoppable."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from .grid import Cell, Grid
    from .results import Session

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
INTERRUPTED, TERMINATED, FAILED = 130, 143, 1


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
    from .config import assignment, from_settings, gathered, merged, nested, prepare, read
    from .loggers import check
    from .paper.protocol import named
    from .progress import counting
    from .results import Session

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
    if "over" in settings:
        raise ConfigError(f"{config}: has lists under [over]; use `linsep grid {config}`")
    with counting("decoding") as progress:
        prepared = prepare(from_settings(gathered(settings)), progress=progress)
    console = _console()
    with Session(prepared, runs, save_every=save_every) as session:
        if session.finished:
            _say(console, quiet, f"{prepared.name} is finished already.")
            if log:
                _say(console, quiet, "For its log: linsep export RUN --to LOGGER.")
        else:
            _train(session, console, quiet, log or [])
    show_result(console, session.results(), session.folder)


def _train(session: Session, console: Console, quiet: bool, log: Sequence[str] = ()) -> None:
    from .loggers import start
    from .progress import Watcher
    from .results import event_record
    from .run import StepEnd

    assert session.run is not None
    done, total = session.run.steps()
    went_on = f" from step {done} of {total}" if done else ""
    _say(console, quiet, f"{session.prepared.name}{went_on}")
    stopping = _Stop()
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
                        told.see(event_record(event))
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
    from .compare import summary_table

    console.print(summary_table([results]).to_rich())
    for flaw in results["audit"]:
        console.print(f"audit: {flaw}")
    console.print(f"Everything is in {folder}", highlight=False, soft_wrap=True)


def grid(
    config: Annotated[Path, typer.Argument(help="Settings with lists under [over].")],
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=VALUES", help="seed=0..4, method=er,er+bfp, ..."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; one per core if left out.")
    ] = None,
    runs: Runs = Path("runs"),
    save_every: SaveEvery = 30.0,
    quiet: Quiet = False,
    set_: Set = None,
) -> None:
    """Many runs on all cores: every combination of the lists; repeat the command to go on.

    [bold]Example[/bold]

      linsep grid configs/fashion-mini.toml --over seed=0..4
    """
    from .compare import summary_table
    from .config import assignment, merged, nested, read
    from .environment import cores
    from .grid import Grid, plan
    from .grid import over as parse_over
    from .results import read_results

    varied = [nested(f"over.{name}", values) for name, values in map(parse_over, over or ())]
    settings = merged(read(config), *varied, *map(assignment, set_ or ()))
    console = _console()
    cells = plan(settings, runs)
    done = sum(cell.status == "done" for cell in cells)
    _say(console, quiet, f"{len(cells)} runs, {done} finished already.")
    if done < len(cells):
        _watch(Grid(cells, runs, workers or cores(), save_every), console, quiet)
    finished = [read_results(cell.folder) for cell in cells if cell.status == "done"]
    if finished:
        console.print(summary_table(finished).to_rich())
    for cell in cells:
        if cell.status == "failed":
            console.print(f"failed: {cell.name}: {cell.reason}", style="red", soft_wrap=True)
    console.print(f"Everything is in {runs}", highlight=False, soft_wrap=True)
    if any(cell.status == "failed" for cell in cells):
        raise typer.Exit(FAILED)
    if len(finished) < len(cells):
        console.print("Stopped; repeat the command to go on.")
        raise typer.Exit(INTERRUPTED)


def _watch(grid: Grid, console: Console, quiet: bool) -> None:
    from rich.live import Live

    began = time.monotonic()
    live = Live(console=console, refresh_per_second=4, transient=True)
    stopping = _Stop(grid.stop)
    with stopping:
        if console.is_terminal and not quiet:
            live.start()
        try:
            for cell in grid:
                if live.is_started:
                    live.update(_picture(grid.cells, began))
                elif cell.status in ("done", "failed"):
                    finished = sum(c.status == "done" for c in grid.cells)
                    note = f"{cell.seconds:.1f} s" if cell.status == "done" else cell.reason
                    line = f"[{finished}/{len(grid.cells)}] {cell.name}  {note}"
                    _say(console, quiet, line)
        finally:
            if live.is_started:
                live.stop()


def _picture(cells: list[Cell], began: float) -> Any:
    from rich.table import Table
    from rich.text import Text

    from .progress import clock

    picture = Table.grid(padding=(0, 2))
    for cell in cells:
        if cell.status == "running":
            bar = "━" * round(20 * cell.share)
            rate = f"{cell.rate:.0f} images/s"
            picture.add_row(Text(cell.name), Text(f"{bar:<20}"), f"{100 * cell.share:.0f} %", rate)
    timed = [cell for cell in cells if cell.seconds]
    left = ""
    if timed:
        elapsed = time.monotonic() - began
        work = len(timed) + sum(c.share for c in cells if c.status == "running")
        rest = sum(1 - c.share for c in cells if c.status in ("waiting", "running"))
        left = f"{clock(elapsed / work * rest)} left"
    count = {s: sum(c.status == s for c in cells) for s in ("done", "waiting", "failed")}
    failed = f", {count['failed']} failed" if count["failed"] else ""
    picture.add_row(f"{count['done']} done, {count['waiting']} waiting{failed}", "", "", left)
    return picture


class _Stop:
    """Ctrl-C and SIGTERM are noted, not obeyed at once; the second Ctrl-C is obeyed."""

    def __init__(self, then: Callable[[], None] | None = None) -> None:
        self.signal: int | None = None
        self._then = then
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        if self._then is not None:
            self._then()


def _console() -> Console:
    from rich.console import Console

    return Console()


def _say(console: Console, quiet: bool, text: str) -> None:
    if not quiet:
        console.print(text, highlight=False, soft_wrap=True, markup=False)
