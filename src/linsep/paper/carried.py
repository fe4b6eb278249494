"""What was measured with carried statistics: a row for each sum in these parts of the protocol."""

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from ..compare.statistics import summarise
from ..compare.tables import Spread, Table, Value
from ..compare.titles import data_title, title
from ..settings.layers import flat
from ..storage.folder import RunFolder
from ..storage.store import Record
from .claims import PILOT, Side
from .evidence import Runs

SHOWN = (
    Side("transport, trained head", "derpp+bfp"),
    Side("transport, rivals", "derpp+fd+ser+refit"),
    Side("transport, fd", "ft+fd+transport"),
    Side("transport", "ft+bfp+transport"),
    Side("transport", "ft+transport"),
    Side("transport", "derpp+bfp+transport"),
)
PART = "transport"  # how the names of these parts begin
HEADS = (
    "sum", "seeds", "images kept", "kB kept", "passes", "Class-IL FAA", "FF", "Task-IL FAA",
    "first task", "last task",
)  # fmt: skip


def table(runs: Runs) -> Table | None:
    """Every sum that has been run, in the order of the protocol."""
    found: dict[str, list[Record]] = {}
    for part, every in runs.parts.items():
        for settings in every if part.startswith(PART) else ():
            if (record := runs.run(settings)) is not None:
                found.setdefault(_label(settings), []).append(record)
    rows = [[label, *_cells(records)] for label, records in found.items()]
    return Table(list(HEADS), rows) if rows else None


def block(runs: Runs) -> str:
    """The main rows for README.md: what is kept, what it costs, how accurate it is."""
    lines = ["| | images kept | passes | Class-IL FAA |", "|---|---:|---:|---:|"]
    for side in SHOWN:
        wanted = [s for s in runs.wanted(side) if s["seed"] not in PILOT]
        records = [record for s in wanted if (record := runs.run(s)) is not None]
        if records:
            _, images, _, passes, faa, *_ = _cells(records)
            assert isinstance(faa, Spread)
            name = title(side.method)
            lines.append(f"| {name} | {images} | {passes:.2f} | {faa.mean:.1f} ± {faa.std:.1f} |")
    return "\n".join([*lines, ""])


def _label(settings: Mapping[str, Any]) -> str:
    """'FT w/ FD, Transport, fd.weight = 3.0', and the data set if it is another one."""
    scenario = settings["scenario"]
    options = flat(settings.get("options", {}))
    said = [title(settings["method"]), *(f"{name} = {value}" for name, value in options.items())]
    if scenario["name"] != "split-cifar10":
        said.append(data_title({"scenario.name": scenario["name"]}))
    return ", ".join([*said, *(["shuffled classes"] if scenario.get("order") else [])])


def _cells(records: list[Record]) -> Iterator[Value]:
    yield len(records)
    yield int(records[0].facts.get("memory.rows") or 0)
    yield round(fmean(_fact(record, "cost.bytes") for record in records) / 1000)
    yield fmean(_fact(record, "cost.passes") for record in records)
    for fact in ("class_il.faa", "class_il.ff", "task_il.faa"):
        yield _spread([_fact(record, fact) for record in records])
    last = [RunFolder(r.folder).results()["matrices"]["class_il"][-1] for r in records]
    for task in (0, -1):
        yield _spread([100 * accuracies[task] for accuracies in last])


def _fact(record: Record, name: str) -> float:
    return float(record.facts[name] or 0.0)


def _spread(values: list[float]) -> Value:
    found = summarise(values)
    return Spread(found.mean, found.std)
