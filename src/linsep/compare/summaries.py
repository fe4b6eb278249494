"""Tables of runs and comparisons: listings, spreads and intervals, paired differences.

comparison = compare(Store(Path("runs")).select("scenario=split-cifar10"))
summary(comparison).to_markdown(), differences(comparison).to_latex()
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple

from ..learning.metrics import COSTS, METRICS, REPORTED, SETTINGS
from ..storage.store import Record, full_name
from .arms import Arm, Comparison, Estimate, data_names, pooled, shown, spelled
from .naming import data_title, is_bound, short_names, title
from .statistics import Summary, holm
from .tables import Best, Spread, Table, Value

TITLES = {name: METRICS[name].title for name in REPORTED}
BEST: Mapping[str, Best] = {title: METRICS[name].better for name, title in TITLES.items()}
PASSES = "cost.passes"
BUDGETS = ("passes", "seconds", "bytes")  # what methods may be compared at equal cost of


def listing(records: Sequence[Record], extra: Sequence[str] = ()) -> Table:
    """A row for each run; `extra` names further columns, if they are not there already.

    Labels have a column if a run has them.
    """
    metrics = {"Class-IL FAA": "class_il.faa", "FF": "class_il.ff", "Task-IL FAA": "task_il.faa"}
    named = ["method", "memory", "seed"]
    there = {"key", "status", "scenario.name", *map(full_name, named), *metrics.values()}
    extra = list({full: name for name in extra if (full := full_name(name)) not in there}.values())
    named += extra
    if PASSES not in map(full_name, extra) and any(record.facts.get(PASSES) for record in records):
        metrics |= {"passes": PASSES}
    labels = {"name": [record.given_name for record in records]}
    labels["tags"] = [", ".join(record.tags) or None for record in records]
    labels = {name: found for name, found in labels.items() if any(found) and name not in named}
    rows: list[list[Value]] = []
    for i, record in enumerate(records):
        state = ": ".join(str(record[name]) for name in ("status", "progress") if record[name])
        state += f", from {record['origin']}" if record["origin"] else ""
        own = [found[i] for found in labels.values()]
        values = [record[name] for name in (*named, *metrics.values())]
        rows.append([record.name, state, *own, data_title(record.facts, {}) or None, *values])
    some = f"{len(records)} run{'s' * (len(records) != 1)}"
    caption = f"{some}, {sum(record.finished for record in records)} finished"
    return Table(["run", "status", *labels, "scenario", *named, *metrics], rows, caption=caption)


def summary(comparison: Comparison, *, intervals: bool = True) -> Table:
    """Mean ± std of every arm, and the 95 % interval for its mean. A bound is never the best."""
    runs, wide = counted(comparison.arms), [f"{name} 95 %" for name in TITLES.values()]
    columns = ["setting", "method", runs]
    for name in TITLES.values():
        columns += [name, f"{name} 95 %"] if intervals else [name]
    costs = [arm.summary("cost", "passes") for arm in comparison.arms]
    columns += ["passes"] * any(costs)
    rows, bounds = list[list[Value]](), list[int]()
    for place, arm, estimates in _placed(comparison):
        bounds += [len(rows)] if is_bound(arm.method) else []
        cells: list[Value] = [place, arm.title, len(arm.runs)]
        for found in (estimate.summary for estimate in estimates):
            cells += [spread(found), _interval(found)] if intervals else [spread(found)]
        if any(costs):
            known = arm.summary("cost", "passes")
            cells.append(known.mean if known else None)
        rows.append(cells)
    spare = [wide] * intervals + [["setting"], [runs], [TITLES["ala"]]]
    spare += [["passes"]] * any(costs)
    return Table(columns, rows, caption(comparison), BEST, "setting", unranked=bounds, spare=spare)


def differences(comparison: Comparison) -> Table:
    """Each arm minus the one it is paired with, with interval, p-values and wins."""
    columns = (
        "setting", "method", "against", "metric", "pairs", "difference", "95 %", "p (t)",
        "p (Holm)", "p (flips)", "better/worse/same",
    )  # fmt: skip
    rows: list[list[Value]] = []
    tests = list[float | None]()
    for place, arm, estimates in _placed(comparison):
        for estimate in estimates:
            pairs, score = estimate.pairs, estimate.score
            if pairs is None or score is None or estimate.against is None:
                continue
            gap = pairs.difference
            row: list[Value] = [place, arm.title, estimate.against.title, TITLES[estimate.metric]]
            row += [gap.n, spread(gap), _interval(gap)]
            row += [_chance(pairs.p), _chance(pairs.sign_flip.p), "/".join(map(str, score))]
            rows.append(row)
            tests.append(pairs.p)
    adjusted = iter(holm([p for p in tests if p is not None]))
    for row, p in zip(rows, tests, strict=True):
        row.insert(columns.index("p (Holm)"), _chance(None if p is None else next(adjusted)))
    by = "class order and seed" if pooled(comparison.arms) else "seed"
    spare = [
        ["p (flips)"], ["better/worse/same"], ["setting"], ["p (t)"], ["pairs"], ["p (Holm)"],
    ]  # fmt: skip
    return Table(columns, rows, f"Paired differences by {by}", group="setting", spare=spare)


def long(comparison: Comparison) -> Table:
    """Every estimate with all digits, a row each: for CSV and JSON."""
    columns = (
        "setting", *comparison.differing, "label", "method", "options", "metric", "seeds", "mean",
        "std", "low", "high", "against", "pairs", "difference", "difference_std", "difference_low",
        "difference_high", "t", "p_t", "p_flips", "flips_exact", "better", "worse", "same",
        *BUDGETS,
    )  # fmt: skip
    every = [estimate for estimates in comparison.estimates for estimate in estimates]
    return Table(columns, [[*_long_row(one), *_costs(one.arm)] for one in every])


def notes(comparison: Comparison) -> list[str]:
    """What a reader should know beside the tables, a line each."""
    said = remarks(comparison)
    if any(estimate.pairs for estimates in comparison.estimates for estimate in estimates):
        said.append(
            "95 %: Student's interval for the mean; p (t): paired t test; p (Holm): the same, "
            "corrected for all tests of the table; p (flips): sign-flip "
            "permutation test, never below 2 / 2^n for n pairs; better: higher FAA, ALA, lower FF"
        )
    if any(arm.values("cost", "passes") for arm in comparison.arms):
        said.append(f"passes: {COSTS['passes']}")
    return said


def remarks(comparison: Comparison) -> list[str]:
    """How runs were sorted into arms, and which were left out."""
    said = []
    if comparison.differing:
        fields = ", ".join(short_names(comparison.differing).values())
        said.append(f"grouped by the fields that differ: {fields}")
    own = {arm.title: title(arm.method) for arm in comparison.arms if arm.by_name}
    said += [f"{name} is {method}" for name, method in own.items()]
    short = short_names(list(comparison.by_method))
    for name, values in comparison.by_method.items():
        each = ", ".join(f"{title(method)} {shown(value)}" for method, value in values.items())
        said.append(f"{short[name]} goes with the method: {each}")
    if pooled(comparison.arms):
        said.append("runs with different shuffled class orders are pooled")
    foreign = [run for arm in comparison.arms for run in arm.runs.values() if run["origin"]]
    if foreign:
        bundles = ", ".join(sorted({str(run["origin"]) for run in foreign}))
        said.append(f"made elsewhere and added from {bundles}: {len(foreign)} of these runs")
    again = "with the settings and seed of another"
    for why, names in (("not finished", comparison.left_out), (again, comparison.repeated)):
        if names:
            more = ", ..." if len(names) > 3 else ""
            said.append(f"{len(names)} {why}, left out: {', '.join(names[:3])}{more}")
    return said


def counted(arms: Sequence[Arm]) -> str:
    """The heading of the number of runs in an arm."""
    return "runs" if pooled(arms) else "seeds"


def located(setting: str, place: str) -> str:
    """'Class-IL, memory=200'."""
    return ", ".join(filter(None, [SETTINGS[setting], place]))


def caption(comparison: Comparison) -> str:
    """The title of the data set, if all runs have the same."""
    names = set(data_names(comparison.arms).values())
    return names.pop() if len(names) == 1 else ""


def spread(found: Summary | None) -> Spread | None:
    return Spread(found.mean, found.std) if found else None


def _placed(comparison: Comparison) -> Iterator[tuple[str, Arm, list[Estimate]]]:
    """Class-IL first, block by block."""
    for setting in SETTINGS:
        for arm, estimates in zip(comparison.arms, comparison.estimates, strict=True):
            here = [estimate for estimate in estimates if estimate.setting == setting]
            yield located(setting, arm.place), arm, here


def _long_row(estimate: Estimate) -> list[Value]:
    arm, found, pairs, score = estimate.arm, estimate.summary, estimate.pairs, estimate.score
    row: list[Value] = [estimate.setting, *(shown(value) for _, value in arm.block)]
    row += [arm.title, arm.method, spelled(arm.options), estimate.metric]
    row += astuple(found) if found else [0, None, None, None, None]
    if pairs is None or score is None or estimate.against is None:
        return row + [None] * 13
    row += [estimate.against.label, *astuple(pairs.difference)]
    row += [pairs.t, pairs.p, pairs.sign_flip.p, str(pairs.sign_flip.exact).lower()]
    return row + list(score)


def _costs(arm: Arm) -> list[Value]:
    found = [arm.summary("cost", name) for name in BUDGETS]
    return [one.mean if one else None for one in found]


def _interval(found: Summary | None) -> str | None:
    if found is None or found.low is None or found.high is None:
        return None
    return f"{found.low:z.2f} to {found.high:z.2f}"


def _chance(p: float | None) -> str | None:
    return None if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"
