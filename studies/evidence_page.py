"""The evidence as text: docs/evidence.md, and the table of README.md that comes from it.

The prose is in evidence.md. Every number of ours is computed from stored runs, and every number of
the paper's tables is read from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from statistics import fmean
from textwrap import wrap
from typing import Any

from linsep.compare.naming import data_title, title
from linsep.compare.statistics import summarise
from linsep.compare.tables import Spread, Table, Value
from linsep.errors import ConfigError
from linsep.paper.tables import Place, at
from linsep.settings.layers import flat
from linsep.storage.folder import RunFolder
from linsep.storage.store import Record

from .claims import CARRIED, Contrast, Side
from .evidence import FEWEST, Finding, Outcome, Runs
from .features import analysed, directions, probes, projections, similarities, weights

MARK = "evidence"
NARROW = 79  # columns of a narrow terminal
MEASURES = {
    "class_il.faa": "Class-IL FAA", "class_il.ff": "Class-IL FF", "class_il.ala": "Class-IL ALA",
    "task_il.faa": "Task-IL FAA", "probe.accuracy": "linear probe", "cka.seen": "CKA, seen classes",
    "cka.unseen": "CKA, new classes",
}  # fmt: skip
PLAIN = f", {MEASURES['class_il.faa']}"  # what a label need not say
WHERE = {
    "stream": "BatchNorm by current-task batches", "recalibrated": "BatchNorm recalibrated",
    "cifar100": "Split CIFAR-100", "shuffled": "shuffled classes", "resnet": "ResNet-18",
}  # fmt: skip
CARRIED_PARTS = "transport"  # how the names of these parts begin
CARRIED_HEADS = (
    "combination", "seeds", "images kept", "kB kept", "compute", "Class-IL FAA", "FF",
    "Task-IL FAA", "first task", "last task",
)  # fmt: skip


def page(found: Sequence[Finding], runs: Runs) -> str:
    """The page in Markdown."""
    template = Path(__file__).with_name("evidence.md").read_text(encoding="utf-8")
    paper, own = ([f for f in found if (f.claim in CARRIED) is mine] for mine in (False, True))
    carried = carried_table(runs)
    return template.format(
        verdicts=verdicts(paper).to_markdown(),
        tests=_tests(paper),
        disagreements=_disagreements(paper),
        carried_verdicts=verdicts(own).to_markdown(),
        carried_tests=_tests(own),
        carried=carried.to_markdown() if carried is not None else "No run yet.\n",
        fewest=FEWEST,
        parts=_parts(runs.counts()),
        printed=at(Place("split-cifar10", 200, "derpp+bfp")).mean,
        features=_features(runs),
        every_run=_every_run(runs),
        **_headline(found),
    )


def _headline(found: Sequence[Finding]) -> dict[str, str]:
    """The effects that the page opens with, by claim and method: '+2.76 (+2.16 to +3.36)'."""
    named = {"batch": "batch", "control": "loss", "recalibrated": "recalibrated"}
    return {
        f"{named[finding.claim.name]}_{method}": _gap(outcome)
        for finding in found
        if finding.claim.name in named
        for method, outcome in zip(("er", "derpp"), finding.outcomes, strict=True)
    }


def block(found: Sequence[Finding]) -> str:
    """The table of the main comparison, for README.md."""
    names = ("er", "derpp", "batch", "recalibrated", "carried derpp", "carried best")
    rows = [o for f in found if f.claim.name in names for o in f.outcomes]
    head = "| Difference in accuracy | linsep | seeds | paper |\n|---|---:|---:|---:|\n"
    lines = [f"| {' | '.join([contrast_title(o), *_ours(o)])} |" for o in rows]
    return head + "\n".join(line.replace(PLAIN, "") for line in lines) + "\n"


def replaced(text: str, content: str, mark: str = MARK) -> str:
    """A text whose part between the two marks is the content."""
    start, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    if start not in text or end not in text:
        raise ConfigError(f"no line {start.strip()} and, below it, {end} to write between")
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}{content}{end}{after}"


def _ours(outcome: Outcome) -> tuple[str, ...]:
    _, gap, pairs, _, paper = _cells(outcome)
    return gap, pairs, paper


def verdicts(found: Sequence[Finding]) -> Table:
    return Table(("claim", "verdict"), [[one.claim.text, one.verdict] for one in found])


def _tests(found: Sequence[Finding]) -> str:
    """Each claim with its verdict, its tests and the parts of the protocol that have their runs."""
    heads = ("test", "difference (95 %)", "seeds", "p (Holm)", "paper", "verdict")
    lines = []
    for finding in found:
        rows = [[*_cells(one), one.verdict] for one in finding.outcomes]
        sides = [s for o in finding.outcomes for s in (o.contrast.variant, o.contrast.against)]
        parts = " ".join(dict.fromkeys(f"--part {quote(side.part)}" for side in sides))
        lines += [f"**{finding.claim.text}** {finding.verdict.capitalize()}. Runs: `{parts}`.\n"]
        lines += [Table(heads, rows).to_markdown()]
    return "\n".join(lines)


def listed(found: Sequence[Finding]) -> str:
    """The verdicts as lines for a terminal: a claim, and below it what its tests gave."""
    lines = []
    for finding in found:
        claim = f"{finding.verdict:<22}{finding.claim.text}"
        lines += wrap(claim, NARROW, subsequent_indent=" " * 22)
        for outcome in finding.outcomes:
            name, gap, pairs, chance, paper = _cells(outcome)
            facts = [gap, f"{pairs} seeds", chance and f"p = {chance}", paper and f"paper {paper}"]
            lines += [f"    {name}", f"      {', '.join(filter(None, facts))}"]
    return "\n".join(lines).replace("p = <", "p < ")


def _cells(outcome: Outcome) -> Iterator[str]:
    pairs, chance = outcome.pairs, outcome.chance
    yield contrast_title(outcome)
    yield _gap(outcome)
    yield f"{pairs.difference.n if pairs else 0} of {outcome.expected}"
    yield "" if chance is None else "<0.0001" if chance < 1e-4 else f"{chance:.4f}"
    yield _signed(outcome.printed)


def _gap(outcome: Outcome) -> str:
    if outcome.pairs is None:
        return "not run"
    gap = outcome.pairs.difference
    interval = "" if gap.low is None else f" ({gap.low:+.2f} to {gap.high:+.2f})"
    return f"{gap.mean:+.2f}{interval}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f}"


def _disagreements(found: Sequence[Finding]) -> str:
    """The claims that are not supported or cannot be tested, with what was checked."""
    lines = [
        f"- **{one.claim.text}** {one.verdict.capitalize()}. {one.claim.checked or one.claim.floor}"
        for one in found
        if one.verdict in ("not supported", "partly supported", "cannot be tested here")
        and (one.claim.checked or one.claim.floor)
    ]
    return "\n".join(["## Where linsep and the paper disagree\n", *lines, "", ""]) if lines else ""


def _parts(counts: Mapping[str, tuple[int, int]]) -> str:
    lines = ["| part of the protocol | runs there | runs asked for |", "|---|---:|---:|"]
    lines += [f"| {name} | {there} | {wanted} |" for name, (there, wanted) in counts.items()]
    return "\n".join(lines) + "\n"


def _features(runs: Runs) -> str:
    """The paper's figures 2, 4 and 5, and what the projection learned."""
    several = analysed(runs)
    if not several:
        return "No run has been analysed yet.\n"
    template = Path(__file__).with_name("features.md").read_text(encoding="utf-8")
    tables = (probes, similarities, directions, projections)
    filled = {made.__name__: made(several).to_markdown() for made in tables}
    return template.format(**filled, weights=weights(runs).to_markdown())


def _every_run(runs: Runs) -> str:
    """Class-IL FAA of every run of the protocol, by seed."""
    parts = []
    for name, every in runs.parts.items():
        table = _by_seed(name, every, runs)
        if table is not None:
            parts += [f"### Part: {name}\n", table.to_markdown()]
    return "\n".join(parts)


def _by_seed(name: str, every: Sequence[Mapping[str, object]], runs: Runs) -> Table | None:
    rows: dict[str, dict[str, float]] = {}
    for settings in every:
        record = runs.run(settings)
        if record is None:
            continue
        options = record.facts
        weight = f", weight {options['bfp.weight']:g}" if name in ("gamma", "control") else ""
        order = options["scenario.order_seed"]
        column = f"order {order}" if name == "shuffled" else f"seed {options['seed']}"
        label = title(str(options["method"])) + weight
        rows.setdefault(label, {})[column] = float(options["class_il.faa"] or 0.0)
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    body = [[label, *(_digits(row.get(c)) for c in columns)] for label, row in rows.items()]
    return Table(["method", *columns], body) if rows else None


def _digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def side_title(side: Side) -> str:
    """'DER++ + BFP', 'DER++ + BFP at weight 0'."""
    weight = 0 if side.part == "control" else side.fields.get("bfp.weight")
    return title(side.method) + (f" at weight {weight:g}" if weight is not None else "")


def contrast_title(outcome: Outcome) -> str:
    """'DER++ + BFP − DER++, Class-IL FAA'."""
    contrast = outcome.contrast
    where = WHERE.get(contrast.variant.part) or WHERE.get(contrast.against.part)
    parts = [_sides(contrast), MEASURES[contrast.measure], where]
    return ", ".join(filter(None, parts))


def _sides(contrast: Contrast) -> str:
    variant, against = contrast.variant, contrast.against
    if variant.fields and variant.method == against.method:
        high, low = (side.fields["bfp.weight"] for side in (variant, against))
        return f"{title(variant.method)} at weight {high:g} − at weight {low:g}"
    return f"{side_title(variant)} − {side_title(against)}"


# --- carried statistics --------------------------------------------------------------------------


def carried_table(runs: Runs) -> Table | None:
    """Every combination that has been run, in the order of the protocol."""
    found: dict[str, list[Record]] = {}
    for part, every in runs.parts.items():
        for settings in every if part.startswith(CARRIED_PARTS) else ():
            if (record := runs.run(settings)) is not None:
                found.setdefault(_carried_label(settings), []).append(record)
    rows = [[label, *_measured(records)] for label, records in found.items()]
    return Table(list(CARRIED_HEADS), rows) if rows else None


def _carried_label(settings: Mapping[str, Any]) -> str:
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
        yield _spread([_fact(record, fact) for record in records])
    last = [RunFolder(r.folder).results()["matrices"]["class_il"][-1] for r in records]
    for task in (0, -1):
        yield _spread([100 * accuracies[task] for accuracies in last])


def _fact(record: Record, name: str) -> float:
    return float(record.facts[name] or 0.0)


def _spread(values: list[float]) -> Value:
    found = summarise(values)
    return Spread(found.mean, found.std)
