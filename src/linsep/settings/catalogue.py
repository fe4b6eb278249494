"""Everything that can be chosen by name: methods, add-ons, networks, scenarios and presets.

`catalogue.toml` has it: lists, completion, titles in tables, colours in figures and the pages about
methods are made from it without importing torch. A recipe is imported when it is first needed.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from typing import Any

DER = re.compile(r"\bDER\s*\+\+(?!\w)", re.IGNORECASE)  # the one name with a plus in it
JOINED = re.compile(r"\s*\+\s*|\s+w/\s*|\s+with\s+", re.IGNORECASE)
LIBRARIES = ("timm", "torchvision")  # of which any model can be chosen: timm/vit_tiny_patch16_224


@dataclass(frozen=True)
class Entry:
    """What `catalogue.toml` has on a name, and explains at its head."""

    title: str
    line: str
    place: str = ""
    spelled: tuple[str, ...] = ()
    source: str = "-"
    compute: float = 0.0
    look: tuple[str, str] = ("", "")
    page: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def recipe(self) -> Callable[..., Any]:
        """The function that makes it; its keyword arguments are its options."""
        module, _, function = self.place.partition(":")
        made: Callable[..., Any] = getattr(import_module(f"linsep.{module}"), function)
        return made


def _read(file: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / file).read_text(encoding="utf-8"))


def _like(name: str, among: Mapping[str, Any]) -> dict[str, Any]:
    """A table, and below it the one that it is `like`."""
    own = dict(among[name])
    return _like(own.pop("like"), among) | own if "like" in own else own


def _entries(kind: str) -> dict[str, Entry]:
    given = _ALL[kind]
    options = {name: entry.pop("options", {}) for name, entry in given.items()}
    return {name: Entry(**entry, options=_like(name, options)) for name, entry in given.items()}


_ALL, _PRESETS = _read("catalogue.toml"), _read("presets.toml")
METHODS, ADDONS = _entries("methods"), _entries("addons")
NETS, SCENARIOS = _entries("nets"), _entries("scenarios")
NET_OPTIONS, SCENARIO_OPTIONS = _ALL["options"]["net"], _ALL["options"]["scenario"]
PRESETS: Mapping[str, Mapping[str, Any]] = {name: _like(name, _PRESETS) for name in _PRESETS}


def method_name(text: str, own: Collection[str] = ()) -> str:
    """'DER++ w/ BFP' and 'der++ + bfp' -> 'derpp+bfp'; what is unknown or in `own` stays."""
    joined = re.compile(r"\s*\+\s*") if ":" in text else JOINED  # a file may be in "a with b/"
    parts = joined.split(DER.sub("derpp", text.strip()))
    return "+".join(p if p in own else _SPELLED.get(_bare(p), p) for p in parts)


def _bare(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


_SPELLED = {
    _bare(word): name
    for name, entry in (METHODS | ADDONS).items()
    for word in (name, entry.title, *entry.spelled)
}


def title(method: str) -> str:
    """'derpp+bfp' -> 'DER++ + BFP'; what is not in the catalogue goes by its own name."""
    known = METHODS | ADDONS
    base, *terms = (known[part].title if part in known else part for part in method.split("+"))
    return " + ".join([base, *terms])
