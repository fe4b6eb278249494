"""`linsep search`: the best values within ranges, found on a validation split."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option

from ..learning.metrics import METRICS, REPORTED, SETTINGS
from ..optional import needed
from ..settings.layers import flat
from . import flags
from .asked import RANGE, settings_from, typed
from .grid import tally, watch
from .store import publish
from .terminal import FAILED, INTERRUPTED, open_console, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..compare.tables import Table
    from ..grids.search import Search

TRIALS, VALIDATION = 20, "scenario.validation"
RANGES = f"A range: {RANGE}, bfp.weight=1..5, method=er,der"
OverRange = Annotated[
    list[str] | None,
    Option(metavar="SETTING=RANGE", help=RANGES, rich_help_panel=flags.SETTINGS),
]
METRIC = flags.one_of("--metric: ", "metric", tuple(REPORTED))
SETTING = flags.one_of("--setting: ", "setting", tuple(SETTINGS))
Metric = Annotated[str, Option(parser=METRIC, metavar="TEXT", help="faa, ff or ala.")]
Setting = Annotated[str, Option(parser=SETTING, metavar="TEXT", help="class_il or task_il.")]


def search(
    config: flags.ConfigFile = None,
    over_range: OverRange = None,
    trials: Annotated[int | None, Option(min=1, help="Trials in all; 20 if left out.")] = None,
    metric: Metric = "faa",
    setting: Setting = "class_il",
    over: flags.Over = None,
    *,
    question: flags.Question,
    details: flags.Details,
    set_: flags.Set = None,
    place: flags.Place,
    labels: flags.Labels,
    dry_run: flags.DryRun = False,
    saving: flags.Saving,
    keep: flags.Keep = None,
) -> None:
    """Search for good settings on a validation split. Test images are not used.

    It needs optuna: pip install 'linsep\\[search]'.

    It validates on a tenth of the training images, or on the share scenario.validation. A trial's
    score is its mean over the lists of --over, usually seeds. Repeat the command to resume, or
    with more --trials to extend the search.

      linsep search --over-range "bfp.weight=0.1..10 log" --over seed=0..2
    """
    from ..grids.grid import Grid
    from ..grids.search import Search, check, on_validation, ranges

    needed("optuna", "a search")
    place.check()
    groups = (question, details, labels)
    settings = on_validation(settings_from(config, groups, set_, over, over_range))
    table = settings.pop("search", {})
    wanted = ranges(table)
    slots = place.slots([settings.get("compute", {})])
    count, worth = trials or table.get("trials", TRIALS), (setting, metric)
    if dry_run:
        check(settings, wanted)
        some = f"{count} trial{'s' * (count != 1)}, {len(slots)} at once"
        say(open_console(), f"{some}; over {', '.join(wanted)}.")
        return
    work = Grid([], saving.runs, saving.save_every, keep, place.engine(saving.runs, slots))
    found = Search(settings, wanted, work, count, len(slots), worth, here=place.here)
    console = open_console(saving.quiet)
    say(console, f"{found.trials} trials, {found.done()} done; over {', '.join(wanted)}.")
    watch(found, len(slots), console)
    _conclude(found, _command(found, config, groups, set_, over), console)


def _conclude(found: Search, command: list[str], progress: Console) -> None:
    """Print the best values and the command that trains with them; exit with the code for it."""
    console, best = open_console(), found.best()
    if found.tried():
        publish([_trials(found)], [], "terminal", None)
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


def _trials(found: Search) -> Table:
    """Every trial with its values, the best first."""
    from ..compare.tables import Table

    title, better = METRICS[found.worth[1]].title, METRICS[found.worth[1]].better
    rows = [
        (number, *(str(chosen.get(name, "-")) for name in found.over), value)
        for number, chosen, value in found.tried()
    ]
    caption = f"{len(rows)} trial{'s' * (len(rows) != 1)}"
    return Table(("trial", *found.over, title), rows, caption=caption, best={title: better})


def _command(
    found: Search, config: str | None, groups: Sequence[Any], set_: flags.Set, over: flags.Over
) -> list[str]:
    """The command that trains with the given settings on everything and tests on the test set."""
    words = ["linsep", "grid" if found.settings.get("over") else "run", *filter(None, [config])]
    for one in typed(groups, set_, over):
        if VALIDATION not in one.names:
            words += [one.flag, one.value]
    if config and VALIDATION in flat(settings_from(config, ())):
        words += ["--set", f"{VALIDATION}=0"]  # which undoes the file's own
    return words
