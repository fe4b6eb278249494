"""`linsep search`: the best settings within ranges, found on a validation split."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError, unknown
from ..learning.metrics import REPORTED, SETTINGS
from .grid import (
    Address,
    On,
    Over,
    PerGpu,
    Slurm,
    Workers,
    engine_for,
    gather,
    slots_for,
    standing,
    watch,
)
from .run import File, Quiet, Runs, SaveEvery, Set
from .terminal import FAILED, INTERRUPTED, open_console, say

if TYPE_CHECKING:
    from ..grids.search import Search

TRIALS = 20


def search(
    config: File = None,
    over_range: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=RANGE", help="'training.lr=0.001..1 log', bfp.weight=1..5, method=er,der"
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="How many settings to try, in all. [default: 20]")
    ] = None,
    metric: Annotated[str, typer.Option(help="faa, ff or ala.")] = "faa",
    setting: Annotated[str, typer.Option(help="class_il or task_il.")] = "class_il",
    over: Over = None,
    on: On = "local",
    address: Address = None,
    slurm: Slurm = None,
    workers: Workers = None,
    per_gpu: PerGpu = 1,
    runs: Runs = Path("runs"),
    save_every: SaveEvery = 30.0,
    quiet: Quiet = False,
    set_: Set = None,
) -> None:
    """Find good settings on a validation split; the test images are not looked at.

    A tenth of the training images is tested on, or scenario.validation. Each trial is worth the
    mean over the lists of --over: seeds, say. Repeat the command to go on, or with more --trials.

    [bold]Examples[/bold]

      linsep search configs/example.toml --over-range "training.lr=0.01..1 log" --trials 20

      linsep search --over-range "bfp.weight=0.1..10 log" --over seed=0..2
    """
    from ..grids.grid import Grid
    from ..grids.search import Search, on_validation, ranges
    from ..settings.layers import merged, read

    for name, value, allowed in (("metric", metric, REPORTED), ("setting", setting, SETTINGS)):
        if value not in allowed:
            raise ConfigError(f"--{name}: {unknown(name, value, allowed)}")
    table = (read(config) if config else {}).get("search", {})
    wanted = ranges(table, _flags(over_range))
    settings = on_validation(gather(config, over, set_))
    here = on == "local"
    slots = slots_for_settings(settings, workers, per_gpu, here)
    engine = engine_for(on, runs, slots, address, slurm)
    found = Search(
        merged(settings),
        wanted,
        runs,
        lambda cells: Grid(cells, runs, save_every=save_every, engine=engine),
        trials=trials or int(table.get("trials", TRIALS)),
        at_once=len(slots),
        setting=setting,
        metric=metric,
        here=here,
    )
    console = open_console()
    say(console, quiet, f"{found.trials} trials, {found.done()} done; over {', '.join(wanted)}.")
    watch(found, len(slots), console, quiet)
    conclude(found, config, over, set_, quiet)


def _flags(given: list[str] | None) -> dict[str, str]:
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ConfigError(f"--over-range {text!r}: should look like 'training.lr=0.001..1 log'")
        found[name.strip()] = value.strip()
    return found


def slots_for_settings(
    settings: dict[str, Any], workers: int | None, per_gpu: int, here: bool
) -> list[dict[str, str]]:
    """As a grid's: found out with the settings as they are, before anything is proposed."""
    from ..grids.plan import Cell

    compute = {"threads": 1, "device": "auto"} | settings.get("compute", {})
    device = compute["device"]
    if device == "auto":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    cell = Cell({"compute": compute}, "", Path(), device=device)
    return slots_for([cell], workers, per_gpu, here=here)


def conclude(
    found: Search, config: Path | None, over: list[str] | None, set_: list[str] | None, quiet: bool
) -> None:
    console = open_console()
    best = found.best()
    if best is not None:
        chosen, value = best
        what = f"Best {found.worth[1].upper()} on the validation split: {value:.2f}"
        console.print(what, highlight=False)
        for name, setting in chosen.items():
            console.print(f"  {name} = {setting}", highlight=False, markup=False)
        console.print("On the test images:", highlight=False)
        words = command(found.settings, chosen, config, over, set_)
        console.print(f"  {shlex.join(words)}", highlight=False, markup=False, soft_wrap=True)
    if found.done() < found.trials:
        say(console, quiet, standing(found.cells, found.at_once))
        console.print("Stopped and saved; repeat the command to go on.")
        raise typer.Exit(INTERRUPTED)
    if best is None:
        console.print("Every trial failed.")
        raise typer.Exit(FAILED)


def command(
    settings: dict[str, Any],
    chosen: dict[str, Any],
    config: Path | None,
    over: list[str] | None,
    set_: list[str] | None,
) -> list[str]:
    """The words that run the chosen settings, trained on everything and tested on the test set."""
    kept = [text for text in set_ or () if not text.startswith("scenario.validation")]
    in_file = {} if config is None else _validation_of(config)
    pairs = [("--over", text) for text in over or ()]
    pairs += [("--set", text) for text in kept]
    pairs += [("--set", f"{name}={value}") for name, value in {**in_file, **chosen}.items()]
    start = ["linsep", "grid" if "over" in settings else "run", *([str(config)] if config else [])]
    return start + [word for pair in pairs for word in pair]


def _validation_of(config: Path) -> dict[str, int]:
    """What undoes a file's own validation split."""
    from ..settings.layers import merged, read

    scenario = merged(read(config)).get("scenario", {})
    return {"scenario.validation": 0} if scenario.get("validation") else {}
