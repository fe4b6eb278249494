"""A table for a paper: methods down, chosen metrics across, once for each value of a setting.

    choice = choose(comparison, metrics="faa,ff", columns="memory")
    table, notes = pivot(comparison, choice)

A setting that always changes with one that makes columns, like the epochs of each data set, goes
with it. A method without a memory has the same numbers in every column of memory sizes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ..errors import ConfigError, unknown
from ..learning.metrics import COSTS, METRICS, PROTOCOLS
from ..storage.store import Value as Fact
from ..storage.store import check_names, full_name
from . import variants
from .summaries import caption, counted, families, interval, remarks
from .tables import Spread, Table, Value
from .variants import DATA, MEMORY, Comparison, Fields, Member, Variant

Beside = Literal["std", "interval", "none"]  # the mean
BESIDE = {
    "std": "mean ± standard deviation", "interval": "mean and its 95 % interval", "none": "mean",
}  # fmt: skip
USUAL = "faa,ff"
SEEDS = "seeds"
Key = tuple[Fact, ...]


@dataclass(frozen=True)
class Choice:
    """What a table shows."""

    metrics: Sequence[tuple[str, str]]  # (protocol, metric)
    columns: Sequence[str]  # fields whose values make columns
    seeds: bool  # whether the number of runs has a column
    spread: Beside


@dataclass(frozen=True)
class Row:
    """One line of the table: the variant that stands for it, and the variant in each column."""

    variant: Variant
    cells: dict[Key, Variant]


@dataclass(frozen=True)
class Column:
    key: Key
    protocol: str
    metric: str
    above: str  # the heading that it shares with its neighbours, or ""
    name: str  # unique; it starts with the heading


def choose(
    comparison: Comparison,
    metrics: str | None = None,
    columns: str | None = None,
    spread: str | None = None,
) -> Choice:
    """Check what was asked for: 'faa,task_il.faa', 'memory,seeds', 'interval'."""
    beside = next((kind for kind in get_args(Beside) if kind == (spread or "std")), None)
    if beside is None:
        raise ConfigError(f"--spread: {unknown('spread', spread, get_args(Beside))}")
    wanted = [_metric(name) for name in _words("--metrics", USUAL if metrics is None else metrics)]
    names = _words("--columns", columns) if columns is not None else []
    fields = [full_name(name) for name in names if name != SEEDS]
    for field in fields:
        if field in variants.IGNORED:
            raise ConfigError(f"--columns: {field!r} makes no columns; name a setting, like memory")
    check_names(fields, [run for variant in comparison.variants for run in variant.runs.values()])
    unique = list(dict.fromkeys(wanted)), list(dict.fromkeys(fields))
    return Choice(*unique, SEEDS in names, beside)


def pivot(comparison: Comparison, choice: Choice) -> tuple[Table, list[str]]:
    """The table, and what a reader should know beside it."""
    called = variants.data_names(comparison.variants)
    keyed = [(variant, _key(variant, choice, called)) for variant in comparison.variants]
    along = _along(keyed, choice)
    settled = {*choice.columns, *along}
    rows = _rows(keyed, settled)
    names = [name for name in variants.short_names(along).values() if name != "data"]
    verb = "change" if len(names) > 1 else "changes"
    notes = [f"{' and '.join(names)} {verb} with the columns"] if names and choice.columns else []
    for at, field in enumerate(choice.columns):
        if _repeat(rows, at, field):
            name = _column_name(comparison, field)
            notes.append(f"methods without {name} have the same numbers in every column of it")
    others = [field for field in comparison.differing if field not in settled]
    notes += remarks(replace(comparison, differing=others))
    return _table(comparison, choice, rows), notes


def _table(comparison: Comparison, choice: Choice, rows: Sequence[Row]) -> Table:
    placed, runs = any(row.variant.place for row in rows), counted(comparison.variants)
    across = _columns(comparison, choice, rows)
    body: list[list[Value]] = [
        [*[row.variant.place] * placed, row.variant.title, *[_count(row.cells)] * choice.seeds,
         *(_cell(row.cells.get(c.key), c.protocol, c.metric, choice.spread) for c in across)]
        for row in rows
    ]  # fmt: skip
    protocols = {PROTOCOLS[protocol] for protocol, _ in choice.metrics if protocol in PROTOCOLS}
    only = protocols.pop() if len(protocols) == 1 else ""
    return Table(
        ["protocol"] * placed + ["method"] + [runs] * choice.seeds + [c.name for c in across],
        body,
        ", ".join(filter(None, [caption(comparison, BESIDE[choice.spread]), only])),
        best={c.name: METRICS[c.metric].better for c in across if c.protocol in PROTOCOLS},
        group="protocol" if placed else None,
        unranked=[i for i, row in enumerate(rows) if variants.is_bound(row.variant.method)],
        upper={c.name: c.above for c in across if c.above},
        spare=[["protocol"]] * placed + [[runs]] * choice.seeds,
        families=families([(row.variant.place, row.variant.method) for row in rows]),
    )


def _columns(comparison: Comparison, choice: Choice, rows: Sequence[Row]) -> list[Column]:
    """Every chosen metric for every value, or values, of the fields that make columns."""
    keys = {key for row in rows for key in row.cells}
    several = len({protocol for protocol, _ in choice.metrics if protocol in PROTOCOLS}) > 1
    found = []
    for key in sorted(
        keys, key=lambda key: variants.ranks(tuple(zip(choice.columns, key, strict=True)))
    ):
        head = _head(comparison, choice, key)
        for protocol, metric in choice.metrics:
            named = PROTOCOLS.get(protocol, "") if several else ""
            above, below = (head, named) if head else (named, "")
            title = METRICS[metric].title if protocol in PROTOCOLS else metric.rpartition(".")[2]
            name = " ".join(filter(None, [above, below, title]))
            found.append(Column(key, protocol, metric, above, name))
    return found


def _metric(name: str) -> tuple[str, str]:
    protocol, _, metric = full_name(name.lower()).partition(".")
    if metric not in (METRICS if protocol in PROTOCOLS else COSTS if protocol == "cost" else ()):
        costs = (cost.rpartition(".")[2] for cost in COSTS)
        allowed = [*METRICS, *(f"task_il.{metric}" for metric in METRICS), *costs]
        raise ConfigError(f"--metrics: {unknown('metric', name, allowed)}")
    return protocol, metric


def _words(flag: str, text: str) -> list[str]:
    found = [word.strip() for word in text.split(",")]
    if not all(found):
        raise ConfigError(f"{flag} {text!r}: should be names separated by commas")
    return list(dict.fromkeys(found))


def _key(variant: Variant, choice: Choice, called: Mapping[Fields, str]) -> Key:
    """The column that a variant belongs to."""
    return tuple(called[variant.data] if f == DATA else variant.fact(f) for f in choice.columns)


def _along(keyed: Sequence[tuple[Variant, Key]], choice: Choice) -> list[str]:
    """Fields that have one value for each method in each column: they go with the columns."""
    fields = {name: None for variant, _ in keyed for name, _ in (*variant.block, *variant.options)}
    found = []
    for field in fields.keys() - set(choice.columns):
        values: dict[tuple[str, Key], set[Fact]] = {}
        for variant, key in keyed:
            value = dict((*variant.block, *variant.options)).get(field)
            values.setdefault((variant.method, key), set()).add(value)
        if all(len(several) == 1 for several in values.values()):
            found.append(field)
    return sorted(found)


def _rows(keyed: Sequence[tuple[Variant, Key]], settled: set[str]) -> list[Row]:
    """Variants that differ in `settled` fields alone share a row."""
    found: dict[tuple[Fields, str, Fields], dict[Key, Variant]] = {}
    for variant, key in keyed:
        block, options = (
            tuple(pair for pair in pairs if pair[0] not in settled)
            for pairs in (variant.block, variant.options)
        )
        found.setdefault((block, variant.method, options), {})[key] = variant
    whole = []
    for (block, method, options), cells in found.items():
        runs = [run for variant in cells.values() for run in variant.runs.values()]
        numbered = {Member(None, i): run for i, run in enumerate(runs)}
        whole.append(Variant(block, method, options, numbered))
    titled = variants.named(whole, by_data=not settled & {DATA, "data"})
    return [Row(variant, cells) for variant, cells in zip(titled, found.values(), strict=True)]


def _repeat(rows: Sequence[Row], at: int, field: str) -> bool:
    """Repeat methods that lack a field, such as a memory, in all columns of it; whether any did."""

    def lacks(key: Key) -> bool:
        return key[at] is None or (field == MEMORY and key[at] == 0)

    every = {key for row in rows for key in row.cells if not lacks(key)}
    repeated = False
    for row in rows:
        for key in [key for key in row.cells if lacks(key)]:
            alike = [k for k in every if k[:at] + k[at + 1 :] == key[:at] + key[at + 1 :]]
            if alike and not any(other in row.cells for other in alike):
                row.cells.update(dict.fromkeys(alike, row.cells.pop(key)))
                repeated = True
    return repeated


def _column_name(comparison: Comparison, field: str) -> str:
    """A field as in the methods' names, if it is an option of theirs: γ."""
    owners = [a.method for a in comparison.variants if field in dict(a.options)]
    return (
        variants.option_name(owners[0], field) if owners else variants.short_names([field])[field]
    )


def _head(comparison: Comparison, choice: Choice, key: Key) -> str:
    """'Split CIFAR-10, memory=200'."""
    row = dict(zip(choice.columns, key, strict=True))
    return ", ".join(
        variants.setting_words(row, [field])
        if field in (DATA, "net.name", "data")
        else f"{_column_name(comparison, field)}={variants.shown(row[field])}"
        for field in choice.columns
    )


def _count(cells: Mapping[Key, Variant]) -> Value:
    found = sorted({len(variant.runs) for variant in cells.values()})
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _cell(variant: Variant | None, protocol: str, metric: str, beside: Beside) -> Value:
    found = variant.summary(protocol, metric) if variant is not None else None
    if found is None:
        return None
    if protocol == "cost" and not found.std:  # declared, and so the same for every seed
        return found.mean if metric in ("compute", "seconds") else round(found.mean)
    if beside == "interval":
        return interval(found)
    return Spread(found.mean, found.std) if beside == "std" else found.mean
