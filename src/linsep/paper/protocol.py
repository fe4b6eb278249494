"""The settings with which the paper ran each method, and the same at a smaller scale.

    settings("split-cifar100", 500, "lucir")  # {"training": {"lr": 0.03, ...}, "lucir": {...}, ...}

Every value that the paper's protocol fixes is written out, so that a stored run can be checked
against it field by field. A hyper-parameter may have two values: the text's, and that of the
authors' program where the two differ. Where the text is silent the program's value completes it,
marked `stated = False`. The scales are in scales.toml.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from ..errors import ConfigError, unknown
from ..settings.layers import VARIED, flat, merged, nested, short_name
from .tables import Place, protocol, read

Source = Literal["text", "program"]
PROJECTIONS = ("fd", "bfp", "bfp2")
SOURCES: Mapping[str, Source] = {"paper": "text", "authors": "program"}  # by preset
TRAINING = ("lr", "momentum", "weight_decay", "epochs", "batch_size")
FIELDS = {
    "milestones": "training.schedule.milestones",
    "milestone_factor": "training.schedule.factor",
    "warmup_epochs": "training.schedule.warmup",
    "draw_size": "memory.replay_batch_size",
}
# What the protocol implies without stating it.
UNSAID: Mapping[str, Any] = {
    "scenario": {"order": "natural", "validation": 0.0},
    "training": {"schedule": {"factor": 0.1, "warmup": 0}},
    "net": {"name": "resnet18", "width": 64},
}
CELL = ("scenario.name", "memory.size", "method", "preset")  # the settings that name a cell
UNSAID_LEARNED = {"init": "default", "reset": True}  # of the terms that learn a projection


def hyperparameters(
    scenario: str, memory: int | None, method: str, source: Source = "text"
) -> dict[str, Any]:
    """Return a method's values in the paper: {"lr": 0.03, "replay_logits": 0.2, ...}.

    `source="program"` takes the program's value where it differs from the text. What neither gives
    is left out. `+fd`, `+bfp`, `+bfp2` add the projection's values to any base.
    """
    raw = protocol(scenario)
    base, _, projection = method.partition("+")
    if projection and projection not in PROJECTIONS:
        raise ConfigError(unknown("addition to a method", projection, PROJECTIONS))
    found = {**raw["common"], **_section(raw, memory, base)}
    if projection:
        names = ["projection_weight"] if projection == "fd" else list(raw["projection"])
        found |= {name: raw["projection"][name] for name in names}
    both = {n: given if isinstance(given, dict) else {"text": given} for n, given in found.items()}
    values = {n: given.get(source, given.get("text")) for n, given in both.items()}
    return {name: value for name, value in values.items() if value is not None}


def _section(raw: Mapping[str, Any], memory: int | None, base: str) -> Mapping[str, Any]:
    """Return the part of a scenario's file for one method at one memory size."""
    scenario = raw["scenario"]
    without: dict[str, dict[str, Any]] = raw.get("no_memory", {})
    by_size: dict[str, dict[str, dict[str, Any]]] = raw["memory"]
    section = without if memory is None else by_size.get(str(memory), {})
    if base in section:
        return section[base]
    methods = {name for section in (without, *by_size.values()) for name in section}
    if base not in methods:
        raise ConfigError(unknown(f"method in the paper's {scenario} runs", base, methods))
    if base in without:
        raise ConfigError(f"{base} has no memory in the paper: ask for memory None, not {memory}")
    raise ConfigError(unknown(f"memory size of {base} on {scenario} in the paper", memory, by_size))


@dataclass(frozen=True)
class Scale:
    name: str
    line: str
    comparable: bool
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    scenarios: Mapping[str, Mapping[str, Any]]
    absent: Mapping[str, str] = field(default_factory=dict)  # scenarios it leaves out, and why

    def memory(self, scenario: str, rows: int | None) -> int | None:
        """Return the memory size that replaces one of the paper's."""
        sizes = self.scenarios.get(scenario, {}).get("memory", {})
        return rows if rows is None else sizes.get(str(rows), rows)


@cache
def scales() -> Mapping[str, Scale]:
    return {
        name: Scale(name=name, **raw | {"seeds": tuple(raw["seeds"])})
        for name, raw in read("scales.toml").items()
    }


def scale(name: str) -> Scale:
    if name not in scales():
        raise ConfigError(unknown("scale", name, scales()))
    return scales()[name]


def settings(
    scenario: str, memory: int | None, method: str, preset: str = "paper"
) -> dict[str, Any]:
    """Return a run's settings as in the paper, without the seed and what the paper leaves open.

    The preset, which is among the settings, decides where text and program differ.
    """
    if preset not in SOURCES:
        raise ConfigError(unknown("preset", preset, SOURCES))
    found = hyperparameters(scenario, memory, method, SOURCES[preset])
    base, _, term = method.partition("+")
    per_task: int = protocol(scenario)["classes_per_task"]
    whole = merged(
        UNSAID,
        {"scenario": {"name": scenario, "per_task": per_task}, "method": method, "preset": preset},
        {} if memory is None else {"memory": {"size": memory}},
        {term: UNSAID_LEARNED} if term in ("bfp", "bfp2") else {},
    )
    for name, value in found.items():
        whole = merged(whole, nested(_field(name, base, term), value))
    return whole


def _field(name: str, base: str, term: str) -> str:
    """The protocol that a hyper-parameter is; most are options of the method or of its add-on."""
    if name.startswith("projection_"):
        return f"{term}.{name.removeprefix('projection_')}"
    return FIELDS.get(name, f"training.{name}" if name in TRAINING else f"{base}.{name}")


def scaled(place: Place, size: Scale, preset: str = "authors") -> dict[str, Any]:
    """Return the settings that fill a cell of the paper's tables at a scale, without the seed."""
    if place.scenario not in size.scenarios:
        reason = size.absent.get(place.scenario, "it is not in scales.toml")
        raise ConfigError(f"the scale {size.name!r} leaves {place.scenario} out: {reason}")
    whole = settings(place.scenario, place.memory, place.method, preset)
    here = size.scenarios[place.scenario]
    parts = place.method.split("+")
    own = {k: v for k, v in size.settings.items() if k in whole or k in parts}
    after = merged(whole, own, {k: v for k, v in here.items() if k != "memory"})
    before, now = whole["training"]["epochs"], after["training"]["epochs"]
    milestones = after["training"]["schedule"]["milestones"]
    moved = [max(1, round(m * now / before)) for m in milestones]
    rows = size.memory(place.scenario, place.memory)
    return merged(
        after,
        nested("training.schedule.milestones", moved),
        {} if rows is None else nested("memory.size", rows),
        {} if place.gamma is None else nested(f"{parts[1]}.weight", place.gamma),
    )


def with_cell(text: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a cell with others above them, which may not ask for another cell."""
    found = named(text, given.get("preset", "paper"))
    own, asked = flat(found), flat(given)
    for name in CELL:
        lists = [asked[f"{table}.{name}"] for table in VARIED if f"{table}.{name}" in asked]
        others = [
            value for value in (asked.get(name, own.get(name)), *lists) if value != own.get(name)
        ]
        if others:
            has = f"{short_name(name)} {own[name]}" if name in own else f"no {short_name(name)}"
            raise ConfigError(
                f"--paper {text} has {has}, not {others[0]}: leave out one of the two"
            )
    return merged(found, given)


def named(text: str, preset: str = "paper") -> dict[str, Any]:
    """Return the settings of 'split-cifar100/500/lucir', or of 'split-cifar10/ft' (no memory)."""
    match text.split("/"):
        case scenario, method:
            return settings(scenario, None, method, preset)
        case scenario, memory, method if memory.isdigit():
            return settings(scenario, int(memory), method, preset)
    raise ConfigError(
        f"--paper {text!r}: should look like split-cifar100/500/lucir or split-cifar10/ft"
    )
