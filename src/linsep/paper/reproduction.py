"""How the paper ran each method, as a run's settings, and its printed numbers beside our runs'.

    settings("split-cifar100", 500, "lucir")  # {"training": {"lr": 0.03, ...}, "lucir": {...}, ...}

Every value that the paper's protocol fixes is written out. A run fills a cell if every value that
the protocol fixes at a scale (scales.toml) is what the run was made with: no tag decides, the
run's own config does. Where nothing fits, nothing is shown.

    sigmas = (ours - paper) / sqrt(paper's std^2 / its runs + our std^2 / our seeds)
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ..compare.statistics import FEWEST, mean, std
from ..compare.tables import Spread, Table
from ..compare.tables import Value as Shown
from ..errors import ConfigError, unknown
from ..learning.metrics import METRICS, PROTOCOLS
from ..settings.catalogue import PRESETS, method_name
from ..settings.layers import VARIED, flat, merged, nested, short_name
from ..storage import store
from ..storage.store import Record
from . import tables
from .tables import Cell, PaperTable, Place, Scale, at

SOURCES: Mapping[str, tables.Source] = {"paper": "text", "authors": "program"}  # by preset
CELL = ("scenario.name", "memory.size", "method", "preset")  # the settings that name a cell


def settings(
    scenario: str, memory: int | None, method: str, preset: str = "paper"
) -> dict[str, Any]:
    """Return a run's settings as in the paper, without the seed and what the paper leaves open.

    The preset, which is among the settings, decides where text and program differ.
    """
    if preset not in SOURCES:
        raise ConfigError(unknown("preset", preset, SOURCES))
    found, known = (
        tables.hyperparameters(scenario, memory, method, SOURCES[preset]),
        tables.read("protocol.toml"),
    )
    base, _, term = method.partition("+")
    per_task: int = tables.protocol(scenario)["classes_per_task"]
    whole = merged(
        known["unsaid"],
        {"scenario": {"name": scenario, "per_task": per_task}, "method": method, "preset": preset},
        {} if memory is None else {"memory": {"size": memory}},
        {term: known["unsaid_learned"]} if term in ("bfp", "bfp2") else {},
    )
    fields = {name: f"{base}.{name}" for name in found} | {  # most are options of the method
        name: name.replace("projection_", f"{term}.") for name in found if "projection_" in name
    }
    fields |= known["fields"]
    return merged(whole, *(nested(fields[name], value) for name, value in found.items()))


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
        values = [asked.get(name, own.get(name)), *lists]
        others = [value for value in values if value != own.get(name)]
        if others:
            has = f"{short_name(name)} {own[name]}" if name in own else f"no {short_name(name)}"
            raise ConfigError(f"--cell {text} has {has}, not {others[0]}: leave out one of the two")
    return merged(found, given)


def named(text: str, preset: str = "paper") -> dict[str, Any]:
    """Return the settings of 'split-cifar100/500/lucir', or of 'split-cifar10/ft' (no memory)."""
    match text.split("/"):
        case scenario, method:
            return settings(scenario, None, method, preset)
        case scenario, memory, method if memory.isdigit():
            return settings(scenario, int(memory), method, preset)
    raise ConfigError(
        f"--cell {text!r}: should look like split-cifar100/500/lucir or split-cifar10/ft"
    )


# --- our runs beside the printed numbers ----------------------------------------------------------


@dataclass(frozen=True)
class Beside:
    """A printed cell, and what our runs gave there, by seed."""

    place: Place
    printed: Cell
    runs: int | None  # behind the printed number; None: the paper does not say
    ours: Mapping[int, float]
    base: Mapping[int, float]  # of the same method without its added term
    wanted: int  # seeds
    compute: float | None = None  # what our runs cost, as a multiple of fine-tuning's

    @property
    def difference(self) -> float | None:
        return mean(list(self.ours.values())) - self.printed.mean if self.ours else None

    @property
    def sigmas(self) -> float | None:
        """The difference in units of its standard error; None where the paper prints no spread, and
        below three seeds, whose own spread says little."""
        spread, gap = self.printed.std, self.difference
        if spread is None or self.runs is None or gap is None or len(self.ours) < FEWEST:
            return None
        own = std(list(self.ours.values())) or 0.0
        error = math.sqrt(spread**2 / self.runs + own**2 / len(self.ours))
        return gap / error if error else None

    @property
    def printed_gain(self) -> float | None:
        """What the added term changes, from the printed means."""
        if "+" not in self.place.method:
            return None
        try:
            return self.printed.mean - at(_without_term(self.place)).mean
        except ConfigError:
            return None

    @property
    def gain(self) -> float | None:
        """What the added term changes in our runs, over the seeds that both have."""
        shared = sorted(self.ours.keys() & self.base.keys())
        return mean([self.ours[s] - self.base[s] for s in shared]) if shared else None


def chosen(
    name: str, scenario: str | None = None, memory: int | None = None, method: str | None = None
) -> tuple[PaperTable, dict[Place, Cell]]:
    """Return a table of the paper and the chosen ones of its cells."""
    found = tables.table(name)
    kept = dict(found.cells)
    for part, value in {"scenario": scenario, "memory": memory, "method": method}.items():
        if value is None:
            continue
        values = [v.strip() for v in str(value).split(",")]
        values = list(map(method_name, values)) if part == "method" else values
        allowed = {str(getattr(place, part)) for place in kept} - {"None"}
        for one in values:
            if one not in allowed:
                raise ConfigError(unknown(f"{part} in Table {found.number}", one, allowed))
        kept = {p: c for p, c in kept.items() if str(getattr(p, part)) in values}
    return found, kept


def grid(
    places: Iterable[Place],
    size: Scale,
    preset: str,
    runs: int | None,
    own: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the settings of every run that fills these cells, each once.

    `own` settings come above the table's. They may not ask for other cells: that is what choosing
    cells is for.
    """
    own = dict(own or {})
    for name in CELL:
        if name in store.flat(own):
            flag = f"--{short_name(name)}"
            raise ConfigError(f"{name}: the table decides it; choose among its cells with {flag}")
    chosen = [own.pop("seed")] if "seed" in own else size.seeds[:runs]
    return [
        merged(scaled(place, size, preset), own) | {"seed": seed}
        for place in dict.fromkeys(map(_experiment, places))
        for seed in chosen
    ]


def expected(place: Place, size: Scale, preset: str) -> dict[str, store.Value]:
    """Return the fields of a run that fills a cell, flat; None for those that must be unset."""
    choices, known = dict(PRESETS[preset]), tables.read("protocol.toml")
    own = choices.pop("options", {})
    if place.memory is None:
        choices.pop("memory", None)
    base, *terms = place.method.split("+")
    parts = {base: own.get(base, {})} | {t: known["plain_term"] | own.get(t, {}) for t in terms}
    if "bfp" in parts:
        parts["bfp"] |= {"cycle": False}
    fields = store.flat(merged(choices, parts, scaled(place, size, preset)))
    del fields["preset"]
    return dict.fromkeys(known["absent"]) | known["plain"] | fields


def beside(
    found: PaperTable,
    cells: Mapping[Place, Cell],
    records: Iterable[Record],
    size: Scale,
    preset: str = "authors",
) -> list[Beside]:
    """Return every cell with our values; a scenario that the scale leaves out has none."""
    known: dict[tuple[store.Value, store.Value], list[Record]] = {}
    for record in records:
        if record.finished:
            key = record.facts.get("scenario.name"), record.facts.get("method")
            known.setdefault(key, []).append(record)
    wanted = size.seeds[: found.runs]  # no more than the paper has

    @cache
    def fitting(experiment: Place) -> list[Record]:
        candidates = known.get((experiment.scenario, experiment.method))
        if candidates is None or experiment.scenario not in size.scenarios:
            return []
        needed = expected(experiment, size, preset).items()
        return [r for r in candidates if all(r.facts.get(name) == value for name, value in needed)]

    def values(place: Place, fact: str = "") -> dict[int, float]:
        ours: dict[int, float] = {}
        for record in fitting(_experiment(place)):
            value = record.facts.get(fact or f"{place.protocol}.{place.metric}")
            if value is not None and (seed := record.facts["seed"]) in wanted:
                ours.setdefault(int(str(seed)), float(value))
        return ours

    rows = []
    for place, printed in cells.items():
        plain = values(_without_term(place)) if "+" in place.method else {}
        costs = list(values(place, "cost.compute").values())
        compute = mean(costs) if costs else None
        ours = values(place)
        rows.append(Beside(place, printed, found.runs, ours, plain, len(wanted), compute))
    return rows


def _experiment(place: Place) -> Place:
    """The place without what is read off a run: the same for all numbers of the same runs."""
    return replace(place, metric="", protocol="")


def _without_term(place: Place) -> Place:
    return replace(place, method=place.method.partition("+")[0], gamma=None)


def laid_out(found: PaperTable, rows: Sequence[Beside], size: Scale, *, whole: bool) -> Table:
    """The table to print; `whole` adds the scale to every row, for formats without a caption."""
    columns = [
        "where", "method", "paper", "ours", "seeds", "difference", "sigmas", "gain, paper",
        "gain, ours", "compute", *(["scale"] if whole else []),
    ]  # fmt: skip
    label = size.name if size.comparable else f"{size.name} (levels not comparable)"
    last: list[Shown] = [label] if whole else []
    groups: dict[str, list[list[Shown]]] = {}  # Class-IL first
    for row in sorted(rows, key=lambda r: list(PROTOCOLS).index(r.place.protocol)):
        where = _where(row, size)
        groups.setdefault(where, []).append([where, *_row(row), *last])
    body = [cells for group in groups.values() for cells in group]
    caption = f"Table {found.number} of the paper beside ours, scale {size.name}"
    if not size.comparable:
        caption += ": levels are NOT comparable"
    return Table(columns, body, caption=caption, group="where", spare=[["compute"]])


def notes(size: Scale, preset: str, rows: Sequence[Beside]) -> list[str]:
    """Return the notes to print below the table, a line each."""
    said = []
    if not size.comparable:
        said.append(
            f"Scale {size.name!r} is not the paper's: {size.line}. Its absolute numbers are not "
            "comparable with the paper's; read the order of methods and the gains, not the levels."
        )
    for scenario, reason in size.absent.items():
        if any(row.place.scenario == scenario for row in rows):
            said.append(f"{scenario} is left out at this scale: {reason}")
    there = sum(bool(row.ours) for row in rows)
    said.append(
        f"{there} of {len(rows)} cells have runs; preset {preset!r}; '-': not run, or unstated"
    )
    said.append(
        "sigmas: the difference over its standard error, from both spreads and numbers of runs, "
        f"from {FEWEST} seeds on; gain: the effect of the add-on, ours paired by seed; compute: "
        "images through the networks, as a multiple of fine-tuning's"
    )
    return said


def _where(row: Beside, size: Scale) -> str:
    p = row.place
    text = f"{PROTOCOLS[p.protocol]} {METRICS[p.metric].title}, {p.scenario}"
    text += "" if p.memory is None else f"/{p.memory}"
    here = size.memory(p.scenario, p.memory)
    return text if here == p.memory else f"{text} (here {here})"


def _row(row: Beside) -> Iterator[Shown]:
    p = row.place
    yield p.method if p.gamma is None else f"{p.method}, gamma {p.gamma:g}"
    yield Spread(row.printed.mean, row.printed.std)
    values = list(row.ours.values())
    yield Spread(mean(values), std(values)) if values else None
    yield f"{len(values)}/{row.wanted}"
    for value in (row.difference, row.sigmas, row.printed_gain, row.gain):
        yield None if value is None else f"{value:+z.2f}"
    yield row.compute
