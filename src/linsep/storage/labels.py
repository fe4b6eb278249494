"""What people call a run: its name, its tags and the name of its data, kept in its config.toml.

No number depends on a label and it is not part of the key, so that a run can be called something
else at any time, finished or not. Knows those fields of a config; all others stay as they are.
"""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from ..settings.layers import merged
from . import files
from .folder import CONFIG, RunFolder


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The labels among a run's settings."""
    found = {name: settings[name] for name in ("name", "tags") if settings.get(name)}
    scenario = settings.get("scenario", {})
    data_name = scenario.get("data_name") if isinstance(scenario, Mapping) else None
    return found | ({"scenario": {"data_name": data_name}} if data_name else {})


def relabel(folder: Path, labels: Mapping[str, Any], without: Collection[str] = ()) -> bool:
    """Give a stored run new labels; tags are added, but for those it is to be `without`.

    Returns whether anything changed. What is not among the labels stays.
    """
    if not labels and not without:
        return False
    run = RunFolder(folder)
    run.config()  # refuses a damaged one
    before = tomllib.loads(run.config_text())
    tags = dict.fromkeys([*before.get("tags", ()), *labels.get("tags", ())])
    after = merged(before, labels, {"tags": [tag for tag in tags if tag not in without]})
    if not after["tags"]:
        del after["tags"]
    if after == before:
        return False
    files.write(folder / CONFIG, tomli_w.dumps(after).encode())
    return True
