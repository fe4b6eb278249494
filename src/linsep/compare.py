"""From the results of many runs to a table: mean ± std over seeds.

Knows results as they are stored. Knows nothing of how they came about.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from .statistics import mean, std
from .tables import Best, Spread, Table, Value

SHOWN = {"faa": "FAA", "ff": "FF", "ala": "ALA"}
SETTINGS = {"class_il": "Class-IL", "task_il": "Task-IL"}
BEST: Mapping[str, Best] = {"FAA": "max", "FF": "min", "ALA": "max"}


def summary_table(results: Iterable[Mapping[str, Any]]) -> Table:
    """One row for each setting, scenario, method and memory, in the order of first appearance."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for found in results:
        groups.setdefault((found["scenario"], found["method"], found["memory"]), []).append(found)
    scenarios = list(dict.fromkeys(scenario for scenario, _, _ in groups))
    several = len(scenarios) > 1
    body = [
        [
            f"{label}, {scenario}" if several else label,
            method,
            memory or "-",
            len(seeds),
            *(_spread([found["metrics"][setting][m] for found in seeds]) for m in SHOWN),
        ]
        for setting, label in SETTINGS.items()
        for name in scenarios
        for (scenario, method, memory), seeds in groups.items()
        if scenario == name
    ]
    columns = ["setting", "method", "memory", "seeds", *SHOWN.values()]
    caption = "" if several or not scenarios else scenarios[0]
    return Table(columns, body, caption=caption, best=BEST, group="setting")


def _spread(values: list[float | None]) -> Value:
    known = [v for v in values if v is not None]
    return Spread(mean(known), std(known)) if known else None
