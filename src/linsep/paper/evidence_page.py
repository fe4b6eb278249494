"""The evidence as text: docs/evidence.md, and the block of README.md that comes from it.

The prose is in evidence.md. Every number of ours is computed from stored runs, and every number of
the paper's tables is read from them. Knows findings. Reads no run.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from shlex import quote
from textwrap import wrap

from ..compare.tables import Table
from ..compare.titles import title
from ..errors import ConfigError
from .carried import table as carried_table
from .claims import CARRIED
from .evidence import FEWEST, Finding, Outcome, Runs, Verdict
from .evidence_picture import PLAIN, contrast_title
from .features import analysed, directions, probes, projections, similarities, weights
from .tables import Place, at

FIGURE = "figures/evidence.svg"
FEATURES = "figures/features.svg"
MARK = "evidence"
NARROW = 79  # columns of the narrowest terminal that is thought of
OUTCOMES: Mapping[Verdict, str] = {  # of one test; the verdict is on all tests of a claim
    "holds": "as claimed", "does not hold": "not as claimed", "undecided": "open", "not run": "",
}  # fmt: skip


def page(found: Sequence[Finding], runs: Runs) -> str:
    """The page in Markdown."""
    template = files("linsep.paper").joinpath("evidence.md").read_text(encoding="utf-8")
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
    )


def block(found: Sequence[Finding]) -> str:
    """The table of the main comparison, for README.md."""
    names = ("er", "derpp", "control", "reestimated")
    rows = [o for f in found if f.claim.name in names for o in f.outcomes]
    head = "| Class-IL final average accuracy | ours | pairs | paper |\n|---|---:|---:|---:|\n"
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
    heads = ("test", "difference (95 %)", "pairs", "p (Holm)", "paper", "outcome")
    lines = []
    for finding in found:
        rows = [[*_cells(one), OUTCOMES[one.verdict]] for one in finding.outcomes]
        sides = [s for o in finding.outcomes for s in (o.contrast.arm, o.contrast.against)]
        parts = " ".join(dict.fromkeys(f"--part {quote(side.part)}" for side in sides))
        lines += [f"**{finding.claim.text}** {finding.verdict.capitalize()}. Runs: `{parts}`.\n"]
        lines += [Table(heads, rows).to_markdown()]
    return "\n".join(lines)


def listed(found: Sequence[Finding]) -> str:
    """The verdicts as lines for a terminal: a claim, and below it what its tests gave."""
    lines = []
    for finding in found:
        claim = f"{finding.verdict:<15}{finding.claim.text}"
        lines += wrap(claim, NARROW, subsequent_indent=" " * 15)
        for outcome in finding.outcomes:
            name, gap, pairs, chance, paper = _cells(outcome)
            facts = [gap, f"{pairs} pairs", chance and f"p = {chance}", paper and f"paper {paper}"]
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
    """The claims that do not hold, with what was checked."""
    wrong = [finding.claim for finding in found if finding.verdict == "does not hold"]
    lines = [f"- **{claim.text}** This does not hold here. {claim.checked}" for claim in wrong]
    return "\n".join(["## Where linsep and the paper disagree\n", *lines, "", ""]) if wrong else ""


def _parts(counts: Mapping[str, tuple[int, int]]) -> str:
    lines = ["| part of the protocol | runs there | runs asked for |", "|---|---:|---:|"]
    lines += [f"| {name} | {there} | {wanted} |" for name, (there, wanted) in counts.items()]
    return "\n".join(lines) + "\n"


def _features(runs: Runs) -> str:
    """The paper's figures 2, 4 and 5, and what the projection learned."""
    several = analysed(runs)
    if not several:
        return "No run has been analysed yet.\n"
    template = files("linsep.paper").joinpath("features.md").read_text(encoding="utf-8")
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
