"""From the results of many runs to tables: spreads and intervals, paired differences.

    comparison = compare(Store(Path("runs")).select("scenario=split-cifar10"))
    summary(comparison).to_markdown(), differences(comparison).to_latex()

Knows how a comparison is laid out. Knows nothing of files, or of how results came about.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..learning.metrics import METRICS, REPORTED, SETTINGS
from ..storage.store import Record
from .arms import Arm, Comparison, Figure, shown, spelled
from .statistics import Summary, mean, std
from .tables import Best, Spread, Table, Value

SHOWN = {name: METRICS[name].title for name in REPORTED}
BEST: Mapping[str, Best] = {METRICS[name].title: METRICS[name].better for name in REPORTED}


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


def listing(records: Sequence[Record], extra: Sequence[str] = ()) -> Table:
    shown = {"Class-IL FAA": "class_il.faa", "FF": "class_il.ff", "Task-IL FAA": "task_il.faa"}
    named = [*("scenario", "method", "memory", "seed"), *extra]
    rows: list[list[Value]] = []
    for record in records:
        state = str(record["status"])
        if record["progress"]:
            state += f": {record['progress']}"
        row: list[Value] = [record.name, state, *(record[name] for name in named)]
        rows.append([*row, *(record[name] for name in shown.values())])
    done = sum(record.finished for record in records)
    caption = f"{len(records)} runs, {done} finished"
    return Table(["name", "status", *named, *shown], rows, caption=caption)


def summary(comparison: Comparison) -> Table:
    """Mean ± std and the 95 % interval of every arm."""
    columns = ["setting", "method", "seeds"]
    columns += [name for title in SHOWN.values() for name in (title, f"{title} 95 %")]
    rows = []
    for place, arm, figures in _placed(comparison):
        cells: list[Value] = [place, arm.label, len(arm.runs)]
        for found in (figure.summary for figure in figures):
            cells.append(Spread(found.mean, found.std) if found else None)
            cells.append(_interval(found))
        rows.append(cells)
    common = comparison.common.get("scenario.name")
    return Table(columns, rows, caption=str(common or ""), best=BEST, group="setting")


def differences(comparison: Comparison) -> Table:
    """Paired by seed: the arm minus the one it is compared with, and what that allows to say."""
    columns = (
        "setting", "method", "against", "metric", "pairs", "difference", "95 %", "p (t)",
        "p (flips)", "better/worse/same",
    )  # fmt: skip
    rows: list[list[Value]] = []
    for place, arm, figures in _placed(comparison):
        for figure in figures:
            pairs, score = figure.pairs, figure.score
            if pairs is None or score is None or figure.against is None:
                continue
            gap = pairs.difference
            first = [place, arm.label, figure.against.label, SHOWN[figure.metric]]
            chances = [_chance(pairs.p), _chance(pairs.sign_flip.p)]
            last = [_interval(gap), *chances, "/".join(map(str, score))]
            rows.append([*first, len(pairs.seeds), Spread(gap.mean, gap.std), *last])
    return Table(columns, rows, caption="Paired differences by seed", group="setting")


def long(comparison: Comparison) -> Table:
    """Everything, a row for each figure, numbers whole: for CSV and JSON."""
    columns = (
        "setting", *comparison.differing, "method", "options", "metric", "seeds", "mean", "std",
        "low", "high", "against", "pairs", "difference", "difference_std", "difference_low",
        "difference_high", "t", "p_t", "p_flips", "flips_exact", "better", "worse", "same",
    )  # fmt: skip
    every = [figure for figures in comparison.figures for figure in figures]
    return Table(columns, [_long_row(figure) for figure in every])


def notes(comparison: Comparison) -> list[str]:
    """What a reader should know beside the tables, a line each."""
    said = []
    if comparison.differing:
        said.append(f"grouped by what differs: {', '.join(comparison.differing)}")
    for name, values in comparison.by_method.items():
        each = ", ".join(f"{method} {shown(value)}" for method, value in values.items())
        said.append(f"{name} goes with the method: {each}")
    if comparison.left_out:
        first = ", ".join(comparison.left_out[:3])
        more = ", ..." if len(comparison.left_out) > 3 else ""
        said.append(f"{len(comparison.left_out)} not finished, left out: {first}{more}")
    if comparison.doubled:
        names = ", ".join(comparison.doubled)
        said.append(f"left out, since another run has the same settings and seed: {names}")
    if any(figure.pairs for figures in comparison.figures for figure in figures):
        said.append(
            "95 %: Student's interval for the mean; p (t): paired t test; p (flips): sign-flip "
            "permutation test, never below 2 / 2^n for n pairs; better: higher FAA, ALA, lower FF"
        )
    return said


def _placed(comparison: Comparison) -> Iterator[tuple[str, Arm, list[Figure]]]:
    """Class-IL first, block by block."""
    for setting, label in SETTINGS.items():
        for arm, figures in zip(comparison.arms, comparison.figures, strict=True):
            place = ", ".join(filter(None, [label, spelled(arm.block)]))
            yield place, arm, [figure for figure in figures if figure.setting == setting]


def _long_row(figure: Figure) -> list[Value]:
    arm, found, pairs, score = figure.arm, figure.summary, figure.pairs, figure.score
    row: list[Value] = [figure.setting, *(shown(value) for _, value in arm.block)]
    row += [arm.method, spelled(arm.options), figure.metric]
    row += [found.n, *_numbers(found)] if found else [0, None, None, None, None]
    if pairs is None or score is None or figure.against is None:
        return row + [None] * 13
    row += [figure.against.label, len(pairs.seeds), *_numbers(pairs.difference)]
    row += [pairs.t, pairs.p, pairs.sign_flip.p, str(pairs.sign_flip.exact).lower()]
    return row + list(score)


def _numbers(found: Summary) -> list[float | None]:
    return [found.mean, found.std, found.low, found.high]


def _interval(found: Summary | None) -> str | None:
    if found is None or found.low is None or found.high is None:
        return None
    return f"{found.low:z.2f} to {found.high:z.2f}"


def _chance(p: float | None) -> str | None:
    if p is None:
        return None
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def _spread(values: list[float | None]) -> Value:
    known = [v for v in values if v is not None]
    return Spread(mean(known), std(known)) if known else None
