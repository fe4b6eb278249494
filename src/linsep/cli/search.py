"""`linsep search`: the best values within ranges, found on a validation split."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from ..learning.metrics import REPORTED, SETTINGS
from ..settings.layers import read
from . import flags
from .grid import lists, tally, watch
from .terminal import FAILED, INTERRUPTED, open_console, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..grids.search import Search

TRIALS = 20
RANGE = "A range: 'training.lr=0.001..1 log', bfp.weight=1..5, method=er,der"
METRIC = flags.one_of("--metric: ", "metric", tuple(REPORTED))
SETTING = flags.one_of("--setting: ", "setting", tuple(SETTINGS))
Metric = Annotated[str, Option(parser=METRIC, metavar="TEXT", help="faa, ff or ala.")]
Setting = Annotated[str, Option(parser=SETTING, metavar="TEXT", help="class_il or task_il.")]


def search(
    config: flags.ConfigFile = None,
    over_range: Annotated[list[str] | None, Option(metavar="FIELD=RANGE", help=RANGE)] = None,
    trials: Annotated[int | None, Option(min=1, help="Trials in all; 20 if left out.")] = None,
    metric: Metric = "faa",
    setting: Setting = "class_il",
    over: flags.Over = None,
    *,
    place: flags.Place,
    labels: flags.Labels,
    saving: flags.Saving,
    set_: flags.Set = None,
) -> None:
    """Search for good settings on a validation split. Test images are not used.

    It validates on a tenth of the training images, or on the share scenario.validation. A trial's
    score is its mean over the lists of --over, usually seeds. Repeat the command to resume, or
    with more --trials to extend the search.

      linsep search --over-range "bfp.weight=0.1..10 log" --over seed=0..2
    """
    from ..grids.grid import Grid
    from ..grids.search import Search, on_validation, ranges

    settings = on_validation(flags.settings_from(config, [*lists(over), labels.settings], set_))
    file = read(config).get("search", {}) if config else {}
    wanted = ranges(file, over_range or ())
    slots = place.slots([settings.get("compute", {})])
    work = Grid([], saving.runs, saving.save_every, engine=place.engine(saving.runs, slots))
    count, worth = trials or file.get("trials", TRIALS), (setting, metric)
    found = Search(settings, wanted, work, count, len(slots), worth, here=place.here)
    console = open_console(saving.quiet)
    say(console, f"{found.trials} trials, {found.done()} done; over {', '.join(wanted)}.")
    watch(found, len(slots), console)
    _conclude(found, _command(found, config, over or [], set_ or []), console)


def _conclude(found: Search, command: list[str], progress: Console) -> None:
    """Print the best values and the command that trains with them; exit with the code for it."""
    console, best = open_console(), found.best()
    if best is not None:
        chosen, value = best
        say(console, f"Best {found.worth[1].upper()} on the validation split: {value:.2f}")
        for name, picked in chosen.items():
            say(console, f"  {name} = {picked}")
            command += ["--set", f"{name}={picked}"]
        say(console, "To train it on all images and test it on the test images:")
        say(console, f"  {shlex.join(command)}")
    if found.done() < found.trials:
        say(progress, tally(found.cells))
        say(console, "Stopped and saved. Repeat the command to resume.")
        raise Exit(INTERRUPTED)
    if best is None:
        say(console, "Every trial failed.")
        raise Exit(FAILED)


def _command(found: Search, config: Path | None, over: list[str], set_: list[str]) -> list[str]:
    """The command that trains with the given settings on everything and tests on the test set."""
    words = ["linsep", "grid" if "over" in found.settings else "run"]
    words += [str(config)] if config else []
    words += [word for text in over for word in ("--over", text)]
    kept = [text for text in set_ if not text.startswith("scenario.validation")]
    if config and flags.settings_from(config, [], None).get("scenario", {}).get("validation"):
        kept.append("scenario.validation=0")  # which undoes the file's own
    return words + [word for text in kept for word in ("--set", text)]
