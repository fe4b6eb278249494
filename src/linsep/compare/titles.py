"""Which methods are bounds, and what data sets are called in print."""

from collections.abc import Mapping
from pathlib import PurePath

from ..settings.catalogue import SCENARIOS as CATALOGUE
from ..settings.catalogue import title as title

SCENARIOS = {name: entry.title for name, entry in CATALOGUE.items()}
OWN = ("folder", "table", "arrays", "huggingface", "code")  # scenarios that say nothing of the data
BOUND = "jt"  # trained on all data at once: an upper bound and no competitor


def is_bound(method: str) -> bool:
    return method.partition("+")[0] == BOUND


def data_title(facts: Mapping[str, object], titles: Mapping[str, str] = SCENARIOS) -> str:
    """The data's name, if the user gave it one, else that of own data's file or of the scenario."""
    name, place = facts.get("scenario.name"), facts.get("scenario.data")
    if given := facts.get("scenario.data_name"):
        return str(given)
    if name in OWN and place:
        return PurePath(str(place)).name or str(name)
    return titles.get(str(name), str(name or ""))
