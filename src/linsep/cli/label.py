"""`linsep label`: name, tag and untag runs after they were made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option, echo

from ..errors import ConfigError
from . import flags
from .selection import selected
from .store import RunNames, Runs, Where


def label(
    run: RunNames = None,
    where: Where = None,
    runs: Runs = Path("runs"),
    *,
    labels: flags.Labels,
    untag: Annotated[
        list[str] | None, Option(metavar="TAG", help="Take this tag away. May be repeated.")
    ] = None,
) -> None:
    """Name and tag runs that were made before. Their results stay as they are.

    [bold]Examples[/bold]

      linsep label RUN --name ours

      linsep label --where "bfp.weight=3" --tag ablation
    """
    from ..settings.config import from_settings
    from ..storage.labels import relabel

    if not labels.settings and not untag:
        raise ConfigError("nothing to change: give --name, --tag, --untag or --data-name")
    if not run and where is None:
        raise ConfigError("name the runs or give --where, so that not all are labelled by mistake")
    from_settings(labels.settings)  # refuses what is no label
    found = selected(run, where, runs)
    changed = sum(relabel(record.folder, labels.settings, untag or ()) for record in found)
    echo(f"{changed} of {len(found)} runs changed.")
