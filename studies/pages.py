"""The pages docs/evidence.md and docs/frontier.md, and the table of README.md.

The prose is in evidence.md and frontier.md, as templates of jinja2. Every number of ours is
computed from stored runs, and every number of the paper's tables is read from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from linsep.compare.statistics import Summary, summarise
from linsep.compare.tables import Interval, Spread, Table, Value
from linsep.compare.variants import data_title, is_bound, title
from linsep.errors import ConfigError
from linsep.paper.tables import Place, at
from linsep.settings.layers import flat
from linsep.storage.folder import RunFolder
from linsep.storage.store import Record

from . import equivalence, features
from .claims import CARRIED, EVERY_CLAIM, Contrast, Side
from .equivalence import Quantity, Welch
from .evidence import FEWEST, SEEDS, Finding, Outcome, Runs
from .frontier import CHEAP, REFIT, RIVAL, WHERE, Candidate, Compared, Frontier

MARK = "evidence"
MEASURES = {
    "class_il.faa": "Class-IL FAA", "class_il.ff": "Class-IL FF", "class_il.ala": "Class-IL ALA",
    "task_il.faa": "Task-IL FAA", "probe.accuracy": "linear probe", "cka.seen": "CKA, seen classes",
    "cka.unseen": "CKA, new classes",
}  # fmt: skip
PLAIN = f", {MEASURES['class_il.faa']}"  # what a label need not say
ELSEWHERE = {
    "stream": "BatchNorm by current-task batches", "recalibrated": "BatchNorm recalibrated",
    "cifar100": "Split CIFAR-100", "shuffled": "shuffled classes", "resnet": "ResNet-18",
}  # fmt: skip
DIFFERENCE = "difference (95 %)"


def rendered(name: str, **context: Any) -> str:
    """A page in Markdown, from its template."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader, undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True
    )
    environment.filters |= {"md": Table.to_markdown, "gap": gap, "title": title}
    return environment.get_template(name).render(context)


def gap(found: Summary | Welch | None) -> str:
    """'+2.76 (+2.16 to +3.36)'."""
    if found is None:
        return "not run"
    interval = "" if found.low is None else f" ({found.low:+.2f} to {found.high:+.2f})"
    return f"{found.mean:+.2f}{interval}"


def chance(p: float | None) -> str:
    return "" if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def spread(found: Summary | None) -> Value:
    return None if found is None else Spread(found.mean, found.std)


# --- evidence ------------------------------------------------------------------------------------


def evidence_page(found: Sequence[Finding], runs: Runs, programs: Sequence[Quantity]) -> str:
    several = features.analysed(runs)
    tables = (features.probes, features.similarities, features.directions, features.projections)
    return rendered(
        "evidence.md",
        of={one.claim.name: [_gap(o) for o in one.outcomes] for one in found},
        paper=[one for one in found if one.claim not in CARRIED],
        own=[one for one in found if one.claim in CARRIED],
        verdicts=verdicts,
        tests=tests,
        carried=carried_table(runs),
        programs=programs_table(programs),
        quantities=len(programs),
        apart=[q.title for q in programs if (d := q.difference) and d.low * d.high > 0],
        equivalent=sum(one.verdict == "supported" for one in programs),
        seeds_in=min(min(len(q.theirs), len(q.ours)) for q in programs),
        equivalence=equivalence,
        parts=Table(
            ("part of the protocol", "runs there", "runs asked for"),
            [[name, *counts] for name, counts in runs.counts().items()],
        ),
        fewest=FEWEST,
        printed=at(Place("split-cifar10", 200, RIVAL)).mean,
        **{made.__name__: made(several) for made in tables},
        weights=features.weights(runs),
        every_run=every_run(runs),
    )


def _gap(outcome: Outcome) -> str:
    return gap(outcome.pairs.difference if outcome.pairs else None)


def verdicts(found: Sequence[Finding]) -> Table:
    """The claims, numbered as `tests` refers to them."""
    rows = [[EVERY_CLAIM.index(one.claim) + 1, one.claim.text, one.verdict] for one in found]
    return Table(("", "claim", "verdict"), rows)


def tests(found: Sequence[Finding]) -> Table:
    """Every test of the claims, and the parts of the protocol that have its runs."""
    heads = ("", "test", DIFFERENCE, "seeds", "p (Holm)", "paper", "verdict", "parts")
    rows: list[list[Value]] = []
    for one in found:
        for outcome in one.outcomes:
            sides = outcome.contrast.variant, outcome.contrast.against
            parts = ", ".join(f"`{part}`" for part in dict.fromkeys(side.part for side in sides))
            number = EVERY_CLAIM.index(one.claim) + 1
            cells = contrast_title(outcome), _gap(outcome), _seeds(outcome)
            printed = _signed(outcome.printed)
            rows.append([number, *cells, chance(outcome.chance), printed, outcome.verdict, parts])
    return Table(heads, rows, spare=[["parts"], ["paper"], ["p (Holm)"], ["seeds"]])


def programs_table(programs: Sequence[Quantity]) -> Table:
    rows = []
    for one in programs:
        theirs, ours = map(spread, one.summaries)
        found = one.difference
        counts = f"{len(one.theirs)} and {len(one.ours)}"
        p = chance(found.p if found else None)
        shown = gap(found) if found else ""
        rows.append([one.title, theirs, ours, counts, shown, p, one.verdict])
    heads = ("Class-IL", "authors' code", "linsep", "seeds", "difference (90 %)", "p (TOST)")
    return Table([*heads, "equivalent?"], rows)


def block(found: Sequence[Finding]) -> str:
    """The table of the main comparison, for README.md."""
    names = ("er", "derpp", "batch", "recalibrated", "carried derpp", "carried best")
    lines = ["| Difference in accuracy | linsep | seeds | paper |", "|---|---:|---:|---:|"]
    for outcome in (o for one in found if one.claim.name in names for o in one.outcomes):
        name = contrast_title(outcome).removesuffix(PLAIN).replace(f"{PLAIN},", ",")
        cells = name, _gap(outcome), _seeds(outcome), _signed(outcome.printed)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def replaced(text: str, content: str, mark: str = MARK) -> str:
    """A text whose part between the two marks is the content."""
    start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    if start not in text or end not in text:
        raise ConfigError(f"no line {start.strip()} and, below it, {end} to write between")
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}{content}{end}{after}"


def _seeds(outcome: Outcome) -> str:
    """How many there are, of how many where some are missing."""
    there = outcome.pairs.difference.n if outcome.pairs else 0
    return f"{there} of {outcome.expected}" if there != outcome.expected else str(there)


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def contrast_title(outcome: Outcome) -> str:
    """'DER++ + BFP − DER++, Class-IL FAA'."""
    contrast = outcome.contrast
    where = ELSEWHERE.get(contrast.variant.part) or ELSEWHERE.get(contrast.against.part)
    return ", ".join(filter(None, [_sides(contrast), MEASURES[contrast.measure], where]))


def _sides(contrast: Contrast) -> str:
    variant, against = contrast.variant, contrast.against
    if variant.fields and variant.method == against.method:
        high, low = (side.fields["bfp.weight"] for side in (variant, against))
        return f"{title(variant.method)} at weight {high:g} − at weight {low:g}"
    return f"{_side(variant)} − {_side(against)}"


def _side(side: Side) -> str:
    return title(side.method) + (" at weight 0" if side.part == "control" else "")


def every_run(runs: Runs) -> Table:
    """Class-IL FAA of every run of the protocol; a column is a seed, or an order of the classes."""
    rows: dict[tuple[str, str], dict[int, float]] = {}
    for name, every in runs.parts.items():
        for settings in every:
            if (record := runs.run(settings)) is not None:
                column = settings["scenario"].get("order_seed", settings["seed"])
                mine = rows.setdefault((name, label(settings)), {})
                mine[column] = _fact(record, "class_il.faa")
    columns = sorted({column for row in rows.values() for column in row})
    shown = [[*names, *(row.get(column) for column in columns)] for names, row in rows.items()]
    return Table(["part", "combination", *map(str, columns)], shown)


def carried_table(runs: Runs) -> Table:
    """Every combination with carried statistics or beside them, in the order of the protocol."""
    found: dict[str, list[Record]] = {}
    for part, every in runs.parts.items():
        for settings in every if part.startswith("transport") else ():
            if (record := runs.run(settings)) is not None:
                found.setdefault(label(settings), []).append(record)
    heads = (
        "combination", "seeds", "images kept", "kB kept", "compute", "Class-IL FAA", "FF",
        "Task-IL FAA", "first task", "last task",
    )  # fmt: skip
    return Table(heads, [[name, *_measured(records)] for name, records in found.items()])


def label(settings: Mapping[str, Any]) -> str:
    """'FT + FD + Transport, fd.weight = 3.0', and the data set if it is another one."""
    scenario = settings["scenario"]
    options = flat(settings.get("options", {}))
    said = [title(settings["method"]), *(f"{name} = {value}" for name, value in options.items())]
    if scenario["name"] != "split-cifar10":
        said.append(data_title({"scenario.name": scenario["name"]}))
    return ", ".join([*said, *(["shuffled classes"] if scenario.get("order") else [])])


def _measured(records: list[Record]) -> Iterator[Value]:
    yield len(records)
    yield int(records[0].facts.get("memory.size") or 0)
    yield round(fmean(_fact(record, "cost.bytes") for record in records) / 1000)
    yield fmean(_fact(record, "cost.compute") for record in records)
    for fact in ("class_il.faa", "class_il.ff", "task_il.faa"):
        yield spread(summarise([_fact(record, fact) for record in records]))
    last = [RunFolder(r.folder).results()["matrices"]["class_il"][-1] for r in records]
    for task in (0, -1):
        yield spread(summarise([100 * accuracies[task] for accuracies in last]))


def _fact(record: Record, name: str) -> float:
    return float(record.facts[name] or 0.0)


# --- the frontier --------------------------------------------------------------------------------


def frontier_page(found: Frontier) -> str:
    same = [c for c in found.heads if c.one.method == c.rival.method + REFIT]
    without = [c for c in found.combinations if not c.images and not is_bound(c.method)]
    return rendered(
        "frontier.md",
        rival=title(RIVAL),
        cheap=round(100 * CHEAP),
        versus=lambda *four: Compared(found.find(*four[:2]), found.find(*four[2:])).gap,
        one=found.find,
        best_without=without[0],
        same=same,
        higher=sum(c.gap.mean > 0 for c in same),
        above=sum((c.gap.low or 0.0) > 0 for c in same),
        here=[c for c in same if c.one.words != WHERE],
        elsewhere=[c for c in same if c.one.words == WHERE],
        task_il=lambda c: c.one.summary("task_il.faa").mean - c.rival.summary("task_il.faa").mean,
        found=found,
        confirmed=_confirmed(found),
        table=frontier_table(found),
        against=_against,
        search=_search,
        seeds=len(SEEDS),
    )


def frontier_table(found: Frontier) -> Table:
    """A row for each combination that is complete, the most accurate first."""
    gaps = {c.one: c.gap for c in found.against_rival}
    rows: list[list[Value]] = []
    for one in found.combinations:
        kept = round(one.summary("cost.bytes").mean / 1000)
        both = spread(one.faa), spread(one.summary("task_il.faa"))
        leads = "yes" if one in found.leading else ""
        newest = _percent(one.newest)
        rows.append([one.title, one.compute, kept, *both, newest, _interval(gaps.get(one)), leads])
    heads = ["combination", "compute", "kB kept", "Class-IL FAA", "Task-IL FAA", "newest"]
    spare = [["kB kept"], ["Task-IL FAA"], ["newest"], [DIFFERENCE]]
    return Table([*heads, DIFFERENCE, "frontier"], rows, spare=spare)


def _interval(found: Summary | None) -> Value:
    return None if found is None else Interval(found.mean, found.low, found.high)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _confirmed(found: Frontier) -> Table:
    rows = [[c.title, gap(c.later), chance(c.chance), gap(c.every)] for c in found.confirmed]
    return Table(("test", "seeds 7 to 11 (95 %)", "p (Holm)", "all ten seeds (95 %)"), rows)


def _against(several: Sequence[Compared], what: str) -> Table:
    """Combinations beside the rivals that they change something of."""
    heads = [what, "compared with", "compute", "Class-IL FAA", "newest", DIFFERENCE]
    rows: list[list[Value]] = []
    for c in several:
        newest = f"{100 * c.rival.newest:.0f} to {_percent(c.one.newest)}"
        cells = _percent(c.share), spread(c.one.faa), newest, _interval(c.gap)
        rows.append([c.one.title, c.rival.title, *cells])
    return Table(heads, rows)


def _search(candidates: Sequence[Candidate]) -> Table:
    """The candidates on held-out images, seed by seed."""
    seeds = list(candidates[0].faa) if candidates else []
    rows: list[list[Value]] = [
        [c.title, c.compute, *(c.faa[s] for s in seeds), c.mean] for c in candidates
    ]
    return Table(["combination", "compute", *(f"seed {s}" for s in seeds), "mean"], rows)
