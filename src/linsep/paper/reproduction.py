"""The paper's printed numbers beside those of our runs, cell by cell.

A run fills a cell if every value that the paper's protocol fixes at a scale (hyper-parameters, the
preset's choices, net, number of images ...) is what the run was made with: no tag decides, the
run's own config does. Where nothing fits, nothing is shown.

    sigmas = (ours - paper) / sqrt(paper's std^2 / its runs + our std^2 / our seeds)

With one seed, which has no spread, ours is taken to be the paper's.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ..compare.statistics import mean, std
from ..compare.tables import Spread, Table
from ..compare.tables import Value as Shown
from ..errors import ConfigError, unknown
from ..learning.metrics import METRICS, PROTOCOLS
from ..settings.catalogue import PRESETS
from ..settings.layers import merged, short_name
from ..storage.store import Record, Value, flat
from .protocol import CELL, Scale, scaled
from .tables import Cell, PaperTable, Place, at, table

# What the paper has nothing of: a run that has one of these set fills no cell.
ABSENT = (
    "scenario.first_task", "scenario.per_class", "scenario.test_per_class", "scenario.augment",
    "net.weights", "net.train",
)  # fmt: skip
# What the paper's own runs have where neither its tables nor a preset say so.
PLAIN = {
    "scenario.subset_seed": 0, "training.optimizer": "sgd", "evaluation.batchnorm": "running",
    "net.norm": "batch",
}  # fmt: skip
PLAIN_TERM = {"every": 1, "target": "previous_net"}


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
        """The difference in units of its standard error; None where the paper prints no spread."""
        spread, gap = self.printed.std, self.difference
        if spread is None or self.runs is None or gap is None:
            return None
        own = std(list(self.ours.values()))
        own = spread if own is None else own
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
    found = table(name)
    kept = dict(found.cells)
    for field, value in {"scenario": scenario, "memory": memory, "method": method}.items():
        if value is None:
            continue
        values = [v.strip() for v in str(value).split(",")]
        allowed = {str(getattr(place, field)) for place in kept} - {"None"}
        for one in values:
            if one not in allowed:
                raise ConfigError(unknown(f"{field} in the paper's {name}", one, allowed))
        kept = {p: c for p, c in kept.items() if str(getattr(p, field)) in values}
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
        if name in flat(own):
            flag = f"--{short_name(name)}"
            raise ConfigError(f"{name}: the table decides it; choose among its cells with {flag}")
    chosen = (own.pop("seed"),) if "seed" in own else seeds(size, runs)
    return [
        merged(scaled(place, size, preset), own) | {"seed": seed}
        for place in dict.fromkeys(map(_experiment, places))
        for seed in chosen
    ]


def seeds(size: Scale, runs: int | None) -> tuple[int, ...]:
    """Return the scale's seeds, but no more than the paper has runs."""
    return size.seeds[:runs] if runs else size.seeds


def expected(place: Place, size: Scale, preset: str) -> dict[str, Value]:
    """Return the fields of a run that fills a cell, flat; None for those that must be unset."""
    choices = dict(PRESETS[preset])
    own = choices.pop("options", {})
    if place.memory is None:
        choices.pop("memory", None)
    base, *terms = place.method.split("+")
    parts = {base: own.get(base, {})} | {t: PLAIN_TERM | own.get(t, {}) for t in terms}
    if "bfp" in parts:
        parts["bfp"] |= {"cycle": False}
    fields = flat(choices) | flat(parts) | flat(scaled(place, size, preset))
    del fields["preset"]
    return dict.fromkeys(ABSENT) | PLAIN | fields


def beside(
    found: PaperTable,
    cells: Mapping[Place, Cell],
    records: Iterable[Record],
    size: Scale,
    preset: str = "authors",
) -> list[Beside]:
    """Return every cell with our values; a scenario that the scale leaves out has none."""
    known: dict[tuple[Value, Value], list[Record]] = {}
    for record in records:
        if record.finished:
            key = record.facts.get("scenario.name"), record.facts.get("method")
            known.setdefault(key, []).append(record)
    wanted = seeds(size, found.runs)

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
        "sigmas: the difference over its standard error, from both spreads and numbers of runs; "
        "gain: what the added term changes, ours paired by seed; compute: images through the nets, "
        "as a multiple of fine-tuning's"
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
