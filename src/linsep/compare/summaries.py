"""Tables of runs and comparisons: listings, spreads and intervals, paired differences.

comparison = compare(Store(Path("runs")).select("scenario=split-cifar10"))
summary(comparison).to_markdown(), differences(comparison).to_latex()
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple

from ..learning.metrics import COSTS, METRICS, PROTOCOLS, REPORTED
from ..storage.store import Record, full_name
from .naming import data_title, is_bound, short_names, title
from .statistics import Summary, holm
from .tables import Best, Spread, Table, Value
from .variants import Comparison, Estimate, Variant, data_names, pooled, shown, spelled

TITLES = {name: METRICS[name].title for name in REPORTED}
BEST: Mapping[str, Best] = {title: METRICS[name].better for name, title in TITLES.items()}
COMPUTE = "cost.compute"
LONGEST = 80  # characters of a status in a list
BUDGETS = ("compute", "seconds", "bytes")  # what methods may be compared at equal cost of


def listing(records: Sequence[Record], extra: Sequence[str] = ()) -> Table:
    """A row for each run; `extra` names further columns, if they are not there already.

    Labels have a column if a run has them.
    """
    metrics = {"Class-IL FAA": "class_il.faa", "FF": "class_il.ff", "Task-IL FAA": "task_il.faa"}
    named = ["method", "memory", "seed"]
    there = {"key", "status", "scenario.name", *map(full_name, named), *metrics.values()}
    extra = list({full: name for name in extra if (full := full_name(name)) not in there}.values())
    named += extra
    if COMPUTE not in map(full_name, extra) and any(
        record.facts.get(COMPUTE) for record in records
    ):
        metrics |= {"compute": COMPUTE}
    labels = {"name": [record.given_name for record in records]}
    labels["tags"] = [", ".join(record.tags) or None for record in records]
    labels = {name: found for name, found in labels.items() if any(found) and name not in named}
    rows: list[list[Value]] = []
    for i, record in enumerate(records):
        told = ": ".join(str(record[name]) for name in ("status", "progress") if record[name])
        state = told if len(told) <= LONGEST else f"{told[: LONGEST - 1]}…"  # `show` has all of it
        state += f", from {record['origin']}" if record["origin"] else ""
        own = [found[i] for found in labels.values()]
        values = [record[name] for name in (*named, *metrics.values())]
        rows.append([record.name, state, *own, data_title(record.facts, {}) or None, *values])
    some = f"{len(records)} run{'s' * (len(records) != 1)}"
    caption = f"{some}, {sum(record.finished for record in records)} finished"
    return Table(["run", "status", *labels, "scenario", *named, *metrics], rows, caption=caption)


def summary(comparison: Comparison, *, intervals: bool = True) -> Table:
    """Mean ± std of every variant, and the 95 % interval of its mean. Bounds are never best."""
    runs, wide = counted(comparison.variants), [f"{name} 95 %" for name in TITLES.values()]
    columns = ["protocol", "method", runs]
    for name in TITLES.values():
        columns += [name, f"{name} 95 %"] if intervals else [name]
    costs = [variant.summary("cost", "compute") for variant in comparison.variants]
    columns += ["compute"] * any(costs)
    rows, bounds = list[list[Value]](), list[int]()
    for place, variant, estimates in _placed(comparison):
        bounds += [len(rows)] if is_bound(variant.method) else []
        cells: list[Value] = [place, variant.title, len(variant.runs)]
        for found in (estimate.summary for estimate in estimates):
            cells += [spread(found), _interval(found)] if intervals else [spread(found)]
        if any(costs):
            known = variant.summary("cost", "compute")
            cells.append(known.mean if known else None)
        rows.append(cells)
    spare = [wide] * intervals + [["protocol"], [runs], [TITLES["ala"]]]
    spare += [["compute"]] * any(costs)
    return Table(columns, rows, caption(comparison), BEST, "protocol", unranked=bounds, spare=spare)


def differences(comparison: Comparison) -> Table:
    """Each variant minus the one it is paired with, with interval, p-values and wins."""
    columns = (
        "protocol", "method", "against", "metric", "pairs", "difference", "95 %", "p (t)",
        "p (Holm)", "p (flips)", "better/worse/same",
    )  # fmt: skip
    rows: list[list[Value]] = []
    tests = list[float | None]()
    for place, variant, estimates in _placed(comparison):
        for estimate in estimates:
            pairs, score = estimate.pairs, estimate.score
            if pairs is None or score is None or estimate.against is None:
                continue
            gap = pairs.difference
            row: list[Value] = [
                place,
                variant.title,
                estimate.against.title,
                TITLES[estimate.metric],
            ]
            row += [gap.n, spread(gap), _interval(gap)]
            row += [_chance(pairs.p), _chance(pairs.sign_flip.p), "/".join(map(str, score))]
            rows.append(row)
            tests.append(pairs.p)
    adjusted = iter(holm([p for p in tests if p is not None]))
    for row, p in zip(rows, tests, strict=True):
        row.insert(columns.index("p (Holm)"), _chance(None if p is None else next(adjusted)))
    by = "class order and seed" if pooled(comparison.variants) else "seed"
    spare = [
        ["p (flips)"], ["better/worse/same"], ["protocol"], ["p (t)"], ["pairs"], ["p (Holm)"],
    ]  # fmt: skip
    return Table(columns, rows, f"Paired differences by {by}", group="protocol", spare=spare)


def long(comparison: Comparison) -> Table:
    """Every estimate with all digits, a row each: for CSV and JSON."""
    columns = (
        "protocol", *comparison.differing, "label", "method", "options", "metric", "seeds", "mean",
        "std", "low", "high", "against", "pairs", "difference", "difference_std", "difference_low",
        "difference_high", "t", "p_t", "p_flips", "flips_exact", "better", "worse", "same",
        *BUDGETS,
    )  # fmt: skip
    every = [estimate for estimates in comparison.estimates for estimate in estimates]
    return Table(columns, [[*_long_row(one), *_costs(one.variant)] for one in every])


def notes(comparison: Comparison) -> list[str]:
    """What a reader should know beside the tables, a line each."""
    said = remarks(comparison)
    if any(estimate.pairs for estimates in comparison.estimates for estimate in estimates):
        said.append(
            "95 %: Student's interval for the mean; p (t): paired t test; p (Holm): the same, "
            "corrected for all tests of the table; p (flips): sign-flip "
            "permutation test, never below 2 / 2^n for n pairs; better: higher FAA, ALA, lower FF"
        )
    if any(variant.values("cost", "compute") for variant in comparison.variants):
        said.append(f"compute: {COSTS['compute']}")
    return said


def remarks(comparison: Comparison) -> list[str]:
    """How runs were sorted into variants, and which were left out."""
    said = []
    if comparison.differing:
        fields = ", ".join(short_names(comparison.differing).values())
        said.append(f"grouped by the fields that differ: {fields}")
    own = {
        variant.title: title(variant.method) for variant in comparison.variants if variant.by_name
    }
    said += [f"{name} is {method}" for name, method in own.items()]
    short = short_names(list(comparison.by_method))
    for name, values in comparison.by_method.items():
        each = ", ".join(f"{title(method)} {shown(value)}" for method, value in values.items())
        said.append(f"{short[name]} goes with the method: {each}")
    if pooled(comparison.variants):
        said.append("runs with different shuffled class orders are pooled")
    foreign = [
        run for variant in comparison.variants for run in variant.runs.values() if run["origin"]
    ]
    if foreign:
        bundles = ", ".join(sorted({str(run["origin"]) for run in foreign}))
        said.append(f"made elsewhere and added from {bundles}: {len(foreign)} of these runs")
    again = "with the settings and seed of another"
    for why, names in (("not finished", comparison.left_out), (again, comparison.repeated)):
        if names:
            more = ", ..." if len(names) > 3 else ""
            said.append(f"{len(names)} {why}, left out: {', '.join(names[:3])}{more}")
    return said


def counted(variants: Sequence[Variant]) -> str:
    """The heading of the number of runs in a variant."""
    return "runs" if pooled(variants) else "seeds"


def located(protocol: str, place: str) -> str:
    """'Class-IL, memory=200'."""
    return ", ".join(filter(None, [PROTOCOLS[protocol], place]))


def caption(comparison: Comparison) -> str:
    """The title of the data set, if all runs have the same."""
    names = set(data_names(comparison.variants).values())
    return names.pop() if len(names) == 1 else ""


def spread(found: Summary | None) -> Spread | None:
    return Spread(found.mean, found.std) if found else None


def _placed(comparison: Comparison) -> Iterator[tuple[str, Variant, list[Estimate]]]:
    """Class-IL first, block by block."""
    for protocol in PROTOCOLS:
        for variant, estimates in zip(comparison.variants, comparison.estimates, strict=True):
            here = [estimate for estimate in estimates if estimate.protocol == protocol]
            yield located(protocol, variant.place), variant, here


def _long_row(estimate: Estimate) -> list[Value]:
    variant, found, pairs, score = (
        estimate.variant,
        estimate.summary,
        estimate.pairs,
        estimate.score,
    )
    row: list[Value] = [estimate.protocol, *(shown(value) for _, value in variant.block)]
    row += [variant.title, variant.method, spelled(variant.options), estimate.metric]
    row += astuple(found) if found else [0, None, None, None, None]
    if pairs is None or score is None or estimate.against is None:
        return row + [None] * 13
    row += [estimate.against.label, *astuple(pairs.difference)]
    row += [pairs.t, pairs.p, pairs.sign_flip.p, str(pairs.sign_flip.exact).lower()]
    return row + list(score)


def _costs(variant: Variant) -> list[Value]:
    found = [variant.summary("cost", name) for name in BUDGETS]
    return [one.mean if one else None for one in found]


def _interval(found: Summary | None) -> str | None:
    if found is None or found.low is None or found.high is None:
        return None
    return f"{found.low:z.2f} to {found.high:z.2f}"


def _chance(p: float | None) -> str | None:
    return None if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"
