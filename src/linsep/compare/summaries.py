"""Tables of runs and comparisons: listings, spreads and intervals, paired differences.

comparison = compare(Store(Path("runs")).select("scenario=split-cifar10"))
summary(comparison).to_markdown(), differences(comparison).to_latex()
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import groupby, pairwise, product

from ..learning.metrics import COSTS, METRICS, PROTOCOLS, REPORTED
from ..settings.catalogue import NETS
from ..storage.folder import RunFolder
from ..storage.store import Record, full_name
from .statistics import EXACT_UP_TO, FEWEST, Summary, holm, summarise
from .tables import Best, Interval, Spread, Table, Value
from .variants import (
    Comparison,
    Gain,
    Variant,
    data_names,
    data_title,
    is_bound,
    short_names,
    shown,
    spelled,
    title,
)

TITLES = {name: METRICS[name].title for name in REPORTED}
BEST: Mapping[str, Best] = {title: METRICS[name].better for name, title in TITLES.items()}
COMPUTE = "cost.compute"
LONGEST = 80  # characters of a status in a list
MOST_FIELDS = 3  # that differ by method and are spelled out
BUDGETS = ("compute", "seconds", "bytes")  # what methods may be compared at equal cost of


def listing(records: Sequence[Record], extra: Sequence[str] = ()) -> Table:
    """A row for each run; `extra` names further columns, if they are not there already.

    Labels have a column if a run has them.
    """
    metrics = {"Class-IL FAA": "class_il.faa", "FF": "class_il.ff", "Task-IL FAA": "task_il.faa"}
    named = ["method", "memory", "seed"]
    there = {"key", "status", "scenario.name", *map(full_name, named), *metrics.values()}
    named += {full: name for name in extra if (full := full_name(name)) not in there}.values()
    if COMPUTE not in map(full_name, named) and any(r.facts.get(COMPUTE) for r in records):
        metrics |= {"compute": COMPUTE}
    labels = {"name": [record.given_name for record in records]}
    labels["tags"] = [", ".join(record.tags) or None for record in records]
    labels = {name: found for name, found in labels.items() if any(found) and name not in named}
    rows: list[list[Value]] = []
    for i, record in enumerate(records):
        own = [found[i] for found in labels.values()]
        values = [record[name] for name in (*named, *metrics.values())]
        data = data_title(record.facts, titled=False) or None
        rows.append([record.name, _status(record), *own, data, *values])
    done = sum(record.finished for record in records)
    caption = f"{len(records)} run{'s' * (len(records) != 1)}, {done} finished"
    return Table(["run", "status", *labels, "scenario", *named, *metrics], rows, caption=caption)


def _status(record: Record) -> str:
    """'finished, on validation images', 'unfinished: task 3 learned'; `show` has all of it."""
    told = ": ".join(str(record[name]) for name in ("status", "progress") if record[name])
    state = told if len(told) <= LONGEST else f"{told[: LONGEST - 1]}…"
    state += ", on validation images" if record["scenario.validation"] else ""
    return state + (f", from {record['origin']}" if record["origin"] else "")


def summary(comparison: Comparison, *, intervals: bool = True) -> Table:
    """Mean ± std of every variant, and the 95 % interval of its mean. Bounds are never best."""
    runs, wide = counted(comparison.variants), [f"{name} 95 %" for name in TITLES.values()]
    columns = ["protocol", "method", runs]
    for name in TITLES.values():
        columns += [name, f"{name} 95 %"] if intervals else [name]
    costly = any(variant.values("cost", "compute") for variant in comparison.variants)
    columns += ["compute"] * costly
    rows, methods = list[list[Value]](), list[str]()
    for protocol, variant in product(PROTOCOLS, comparison.variants):
        methods.append(variant.method)
        cells: list[Value] = [located(protocol, variant), variant.title, len(variant.runs)]
        for found in (variant.summary(protocol, metric) for metric in REPORTED):
            cells += [spread(found), _ends(found)] if intervals else [spread(found)]
        rows.append(cells + [variant.fact(COMPUTE)] * costly)
    spare = [wide] * intervals + [["protocol"], [runs], [TITLES["ala"]]] + [["compute"]] * costly
    return Table(
        columns, rows, caption(comparison), BEST, "protocol", spare=spare,
        unranked=[i for i, method in enumerate(methods) if is_bound(method)],
        families=families([(row[0], method) for row, method in zip(rows, methods, strict=True)]),
    ).without_empty(*wide)  # fmt: skip


def differences(comparison: Comparison) -> Table:
    """Each variant minus the one it is paired with, with interval, p-values and wins."""
    columns = (
        "protocol", "method", "against", "metric", "seeds", "difference", "95 %", "p (t)",
        "p (Holm)", "p (flips)", "better/worse/same",
    )  # fmt: skip
    gains = sorted(comparison.gains, key=lambda gain: list(PROTOCOLS).index(gain.protocol))
    known = [gain for gain in gains if gain.pairs.p is not None]
    adjusted = dict(zip(map(id, known), holm([g.pairs.p or 0.0 for g in known]), strict=True))
    rows: list[list[Value]] = [
        [located(gain.protocol, gain.variant), gain.variant.title, gain.against.title,
         TITLES[gain.metric], gain.mean.n, spread(gain.mean), _ends(gain.mean),
         _chance(gain.pairs.p), _chance(adjusted.get(id(gain))), _chance(gain.pairs.p_flips),
         "/".join(map(str, _score(gain)))]
        for gain in gains
    ]  # fmt: skip
    by = "class order and seed" if pooled(comparison.variants) else "seed"
    said = caption(comparison, f"differences paired by {by}, mean ± standard deviation")
    spare = [
        ["p (flips)"], ["better/worse/same"], ["protocol"], ["p (t)"], ["seeds"], ["p (Holm)"],
    ]  # fmt: skip
    whole = Table(columns, rows, said, group="protocol", spare=spare)
    return whole.without_empty("95 %", "p (t)", "p (Holm)", "p (flips)")


def per_class(comparison: Comparison) -> Table:
    """Class-IL accuracy on each class at the end: a row for each class, a column for each variant.

    It has no rows if no run kept its confusion matrix.
    """
    titles = list(dict.fromkeys(variant.title for variant in comparison.variants))
    tasks: dict[tuple[str, str], set[int]] = {}  # by place and class
    shares: dict[tuple[str, str, str], list[float]] = {}  # and variant
    for variant, run in ((a, run) for a in comparison.variants for run in a.runs.values()):
        for name, task, share in _classes(run):
            tasks.setdefault((variant.place, name), set()).add(task)
            shares.setdefault((variant.place, name, variant.title), []).append(share)
    rows: list[list[Value]] = [
        [place, min(found) if len(found) == 1 else None, name,
         *(spread(summarise(v)) if (v := shares.get((place, name, t))) else None for t in titles)]
        for (place, name), found in sorted(tasks.items(), key=lambda item: (item[0][0], *item[1]))
    ]  # fmt: skip
    said = f"Accuracy on each class at the end, Class-IL; {caption(comparison)}"
    table = Table(["protocol", "task", "class", *titles], rows, said, group="protocol")
    return table if any(row[0] for row in rows) else table.without("protocol")


def _classes(run: Record) -> Iterator[tuple[str, int, float]]:
    """The name, the task and the accuracy in percent of each class that has test images."""
    results = RunFolder(run.folder).results()
    tasks = {c: t for t, task in enumerate(results.get("groups", ()), 1) for c in task}
    for number, row in enumerate(results.get("confusion") or ()):
        name = results["classes"][number] if "classes" in results else str(number)
        if any(row):
            yield name, tasks.get(number, 0), 100 * row[number] / sum(row)


def long(comparison: Comparison) -> Table:
    """Every estimate with all digits, a row each: for CSV and JSON."""
    columns = (
        "protocol", *comparison.differing, "label", "method", "options", "metric", "seeds", "mean",
        "std", "low", "high", "against", "pairs", "difference", "difference_std", "difference_low",
        "difference_high", "t", "p_t", "p_flips", "flips_exact", "better", "worse", "same",
        *BUDGETS,
    )  # fmt: skip
    gains = {(id(gain.variant), gain.protocol, gain.metric): gain for gain in comparison.gains}
    rows = [
        _long_row(variant, protocol, metric, gains.get((id(variant), protocol, metric)))
        for variant, protocol, metric in product(comparison.variants, PROTOCOLS, REPORTED)
    ]
    return Table(columns, rows)


def notes(comparison: Comparison) -> list[str]:
    """What a reader should know beside the tables, a line each."""
    said = remarks(comparison)
    if any(gain.pairs.p is not None for gain in comparison.gains):
        said.append(
            "95 %: Student's interval for the mean; p (t): paired t test; p (Holm): the same, "
            "corrected for all tests of the table; p (flips): sign-flip permutation test, never "
            f"below 2 / 2^n for n seeds; all from {FEWEST} seeds on; better: higher FAA, ALA, "
            "lower FF"
        )
    elif comparison.gains:
        said.append(f"fewer than {FEWEST} seeds have no interval and no p")
    if any(variant.values("cost", "compute") for variant in comparison.variants):
        said.append(f"compute: {COSTS['compute']}")
    return said


def remarks(comparison: Comparison) -> list[str]:
    """How runs were sorted into variants, and which were left out."""
    said, variants = list[str](), comparison.variants
    if comparison.differing:
        fields = ", ".join(short_names(comparison.differing).values())
        said.append(f"grouped by the fields that differ: {fields}")
    own = {a.title: title(a.method) for a in variants if a.given_name == a.title}
    said += [f"{name} is {method}" for name, method in own.items()]
    said += list(_by_method(comparison.by_method))
    if pooled(variants):
        said.append("runs with different shuffled class orders are pooled")
    runs = [run for variant in variants for run in variant.runs.values()]
    if held_out := sum(bool(run["scenario.validation"]) for run in runs):
        which = "all" if held_out == len(runs) else f"{held_out} of {len(runs)} runs"
        said.append(f"{which} measured on a validation split, not on the test images")
    if foreign := [str(run["origin"]) for run in runs if run["origin"]]:
        bundles = ", ".join(sorted(set(foreign)))
        said.append(f"{len(foreign)} of these runs were made elsewhere and added from {bundles}")
    again = "with the settings and seed of another"
    for why, names in (("not finished", comparison.left_out), (again, comparison.repeated)):
        if names:
            more = ", ..." if len(names) > 3 else ""
            said.append(f"{len(names)} {why}, left out: {', '.join(names[:3])}{more}")
    return said


def _by_method(fields: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """'lr differs by method: 0.1 for ER, 0.03 for DER++ and ER-ACE'."""
    short = short_names(list(fields))
    for name in list(fields)[:MOST_FIELDS]:
        methods: dict[str, list[str]] = {}
        for method, value in fields[name].items():
            methods.setdefault(shown(value), []).append(title(method))  # type: ignore[arg-type]
        each = ", ".join(f"{value} for {' and '.join(of)}" for value, of in methods.items())
        yield f"{short[name]} differs by method: {each}"
    if more := [short[name] for name in list(fields)[MOST_FIELDS:]]:
        yield f"also different by method: {', '.join(more)} (`linsep report` lists them)"


def pooled(variants: Sequence[Variant]) -> bool:
    """Whether a variant spans several class orders."""
    return any(len({member.order for member in variant.runs}) > 1 for variant in variants)


def counted(variants: Sequence[Variant]) -> str:
    """The heading of the number of runs in a variant."""
    return "runs" if pooled(variants) else "seeds"


def located(protocol: str, variant: Variant) -> str:
    """'Class-IL, memory=200'."""
    return ", ".join(filter(None, [PROTOCOLS[protocol], variant.place]))


def caption(comparison: Comparison, beside: str = "mean ± standard deviation") -> str:
    """'Split CIFAR-10, reduced to 100 training images per class; CNN of width 16, 5 epochs per
    task; mean ± standard deviation over 3 seeds'."""
    names = set(data_names(comparison.variants).values())
    data = [names.pop()] if len(names) == 1 else []
    data += [f"reduced to {images}"] if (images := reduced(comparison)) else []
    counts = sorted({len(variant.runs) for variant in comparison.variants})
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    over = f"{beside} over {number} {counted(comparison.variants)}"
    parts = [", ".join(data), ", ".join(scale(comparison)), over if counts[-1] > 1 else "one seed"]
    return "; ".join(filter(None, parts))


def reduced(comparison: Comparison) -> str:
    """'100 training and 50 test images per class', if all runs leave out the same number."""
    sizes = {"training": "scenario.per_class", "test": "scenario.test_per_class"}
    kept = [f"{n} {kind}" for kind, name in sizes.items() if (n := comparison.common.get(name))]
    return f"{' and '.join(kept)} images per class" if kept else ""


def scale(comparison: Comparison) -> list[str]:
    """'CNN of width 16', '5 epochs per task': what decides the level, if all runs have the same."""
    net, width, epochs = (
        comparison.common.get(name) for name in ("net.name", "net.width", "training.epochs")
    )
    called = NETS[str(net)].title if net in NETS else str(net)
    found = [f"{called} of width {width}" if width else called] if net else []
    found += [f"{epochs} epoch{'s' * (epochs != 1)} per task"] if epochs else []
    sizes = {variant.fact("memory.size") for variant in comparison.variants} - {0, None}
    return found + ([f"a memory of {sizes.pop()} samples"] if len(sizes) == 1 else [])


def families(rows: Sequence[tuple[Value, str]]) -> list[int]:
    """Of (group, method): the rows after which another base method follows in the same group, if
    base methods have several rows, one below the other.
    """
    bases = [(group, method.partition("+")[0]) for group, method in rows]
    together = len(list(groupby(bases))) == len(set(bases)) < len(bases)
    ends = [i for i, (a, b) in enumerate(pairwise(bases)) if a[0] == b[0] and a != b]
    return ends if together else []


def spread(found: Summary | None) -> Spread | None:
    return Spread(found.mean, found.std) if found else None


def interval(found: Summary) -> Interval:
    return Interval(found.mean, found.low, found.high)


def _long_row(variant: Variant, protocol: str, metric: str, gain: Gain | None) -> list[Value]:
    found = variant.summary(protocol, metric)
    row: list[Value] = [protocol, *(shown(value) for _, value in variant.block)]
    row += [variant.title, variant.method, spelled(variant.options), metric]
    row += astuple(found) if found else [0, None, None, None, None]
    if gain is None:
        row += [None] * 13
    else:
        exact = str(gain.mean.n <= EXACT_UP_TO).lower()
        row += [gain.against.label, *astuple(gain.mean)]
        row += [gain.pairs.t, gain.pairs.p, gain.pairs.p_flips, exact, *_score(gain)]
    return row + [variant.fact(f"cost.{name}") for name in BUDGETS]


def _score(gain: Gain) -> tuple[int, int, int]:
    """Pairs in which the variant is better, worse, equal: less forgetting is better."""
    higher, lower, same = gain.pairs.wins, gain.pairs.losses, gain.pairs.ties
    less_is_better = METRICS[gain.metric].better == "min"
    return (lower, higher, same) if less_is_better else (higher, lower, same)


def _ends(found: Summary | None) -> str | None:
    ends = found.interval if found else None
    return f"{ends[0]:z.2f} to {ends[1]:z.2f}" if ends else None


def _chance(p: float | None) -> str | None:
    return None if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"
