"""The frontier as text: docs/frontier.md. The prose is in frontier.md; the numbers are computed."""

from collections.abc import Sequence
from pathlib import Path

from linsep.compare.naming import is_bound, title
from linsep.compare.statistics import Paired
from linsep.compare.tables import Interval, Spread, Table, Value

from .evidence import SEEDS, SIGNIFICANT
from .frontier import (
    BEST,
    CHEAP,
    CHEAP_HEAD,
    FRESH,
    HEADS,
    LATER,
    REFIT,
    RIVAL,
    WHERE,
    Candidate,
    Compared,
    Confirmed,
    Frontier,
    Sum,
)

DIFFERENCE = "difference (95 %)"
CHANCE = "p (Holm)"
NEWEST = "newest"


def page(found: Frontier) -> str:
    """The page in Markdown."""
    template = Path(__file__).with_name("frontier.md").read_text(encoding="utf-8")
    return template.format(
        rival=title(RIVAL),
        table=table(found).to_markdown(),
        norms=_against(found.norms, "norm"),
        heads=_against(found.heads, "head"),
        heads_verdict=_heads_verdict(found.heads),
        head_elsewhere=_head_elsewhere(found.heads),
        confirmed_head=_afresh(found.confirmed_head, CHEAP_HEAD, "er"),
        confirmed_cheap=_afresh(found.confirmed_cheap, CHEAP_HEAD, RIVAL),
        confirmed_best=_afresh(found.confirmed_best, BEST, RIVAL),
        held_out=_search(found.held_out),
        best_head=_outcome(found.held_out, found) if found.held_out else "",
        carried=_without_images(found),
        forms=_against(found.forms, "form"),
        cheap=round(100 * CHEAP),
        verdict=_verdict(found.forms),
        confirmed=_confirmed(found),
        fast_refit=_fast_refit(found),
        outcome=_outcome(found.candidates, found)
        if found.searched
        else "The search is not finished.",
        search=_search(found.candidates),
        missing=_missing(found.missing),
    )


def table(found: Frontier) -> Table:
    """A row for each sum that is complete, the most accurate first."""
    compared = {id(c.one): c for c in found.against_rival}
    rows = []
    for one in found.sums:
        leads = "yes" if one in found.leading else ""
        rows.append([*_cells(one), *_test(compared.get(id(one))), leads])
    heads = ["sum", "compute", "kB kept", "Class-IL FAA", "Task-IL FAA", NEWEST]
    heads += [DIFFERENCE, CHANCE]
    spare = [["kB kept"], ["Task-IL FAA"], [CHANCE], [NEWEST], [DIFFERENCE]]
    return Table([*heads, "frontier"], rows, spare=spare)


def notes(found: Frontier) -> list[str]:
    """What the table lacks."""
    if not found.missing:
        return []
    lacking = f"{len(found.missing)} sums of the protocol lack runs of seeds {SEEDS[0]} to"
    return [f"{lacking} {SEEDS[-1]}; `linsep grid studies/small.toml` makes them."]


def _cells(one: Sum) -> list[Value]:
    faa = [one.summary(fact) for fact in ("class_il.faa", "task_il.faa")]
    shown = [Spread(found.mean, found.std) for found in faa]
    return [one.title, one.compute, round(one.kept / 1000), *shown, _percent(one.newest)]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _test(compared: Compared | None) -> list[Value]:
    if compared is None:
        return [None, None]
    gap, chance = compared.pairs.difference, compared.chance
    return [Interval(gap.mean, gap.low, gap.high), "<0.0001" if chance < 1e-4 else f"{chance:.4f}"]


def _against(several: Sequence[Compared], what: str) -> str:
    """A table of sums beside the rivals that they change something of."""
    if not several:
        return "Not run yet.\n"
    heads = [what, "compared with", "compute", "Class-IL FAA", NEWEST, DIFFERENCE, CHANCE]
    rows: list[list[Value]] = []
    for c in several:
        faa = c.one.summary("class_il.faa")
        cells = c.rival.title, _percent(c.share), Spread(faa.mean, faa.std)
        rows.append([c.one.title, *cells, _newest(c), *_test(c)])
    return Table(heads, rows).to_markdown()


def _newest(compared: Compared) -> str:
    """'70 to 30 %': from the rival's share to one's own."""
    return f"{100 * compared.rival.newest:.0f} to {_percent(compared.one.newest)}"


def _heads_verdict(heads: Sequence[Compared]) -> str:
    """On how many of the same nets another head is better."""
    pairs = [c for c in heads if c.one.method.removesuffix(REFIT) == c.rival.method]
    if not pairs:
        return "It has not been run yet."
    gaps = [c.pairs.difference for c in pairs]
    higher = sum(gap.mean > 0 for gap in gaps)
    above = sum(gap.low is not None and gap.low > 0 for gap in gaps)
    below = sum(gap.high is not None and gap.high < 0 for gap in gaps)
    several = f"Of the {len(pairs)} rows below that share their networks, {higher} have a higher"
    return f"{several} mean with it; {above} of their intervals are above zero, and {below} below."


def _head_elsewhere(heads: Sequence[Compared]) -> str:
    """What another head does where each class has few stored rows, in both settings."""
    rows = [c for c in heads if c.one.words == WHERE]
    if not rows:
        return "It has not been run on Split CIFAR-100 yet."
    said = []
    for c in rows:
        lost = c.one.summary("task_il.faa").mean - c.rival.summary("task_il.faa").mean
        gap = c.pairs.difference.mean
        both = f"{gap:+.2f} points in Class-IL and {lost:+.2f} in Task-IL"
        said.append(f"{title(c.rival.method)} by {both}")
    few = "On Split CIFAR-100 a class has about five stored rows, which is little to fit a head to"
    return f"{few}: it changes {', and '.join(said)}."


def _verdict(forms: Sequence[Compared]) -> str:
    """Which forms of BFP are cheap enough and lose nothing."""
    if not forms:
        return "None has been run yet."
    good = [c.one.title for c in forms if c.share <= CHEAP and not c.loses]
    return (
        f"This holds for {'; '.join(good)}."
        if good
        else "This holds for none of those that were run."
    )


def _confirmed(found: Frontier) -> str:
    """What further seeds say of the form that was thought of late."""
    if found.confirmed is None:
        return f"{FAST}, which has not been done yet."
    later, every = map(_interval, found.confirmed)
    return f"{FAST}: there it differs from {title(RIVAL)} by {later}, and over all ten by {every}."


def _afresh(confirmed: Confirmed | None, one: str, other: str) -> str:
    """What seeds say that a sum was not chosen by; nothing if they were not run."""
    if confirmed is None:
        return ""
    later, every = map(_interval, confirmed)
    seeds = f"On seeds {LATER[0]} to {LATER[-1]}, which had not been used for it"
    both = f"{title(one)} differs from {title(other)}"
    return f"{seeds}, {both} by {later}, and over all ten by {every}."


def _without_images(found: Frontier) -> str:
    """The most accurate sum that stores no image, beside the rival."""
    tests = [c for c in found.against_rival if not c.one.images and not is_bound(c.one.method)]
    if not tests:
        return "No sum that stores no image has been run."
    best = max(tests, key=lambda c: c.one.summary("class_il.faa").mean)
    faa = best.one.summary("class_il.faa").mean
    return (
        f"Of the combinations that store none, {best.one.title} is the most accurate: {faa:.1f} % "
        f"at a relative compute of {best.one.compute:.2f}. It differs from {title(RIVAL)}, which "
        "stores 200, by "
        f"{_interval(best.pairs)}."
    )


def _fast_refit(found: Frontier) -> str:
    """The same form with a head fitted anew, beside the whole."""
    tests = [c for c in found.against_rival if HEADS.get(c.one.part) == FRESH]
    if not tests:
        return "That has not been run yet."
    return f"It then differs from {title(RIVAL)} by {_interval(tests[0].pairs)}."


FAST = (
    "One draw with recalibrated BatchNorm is the preset `fast`. The idea came when two seeds of "
    f"the shared draw had been seen, so seeds {LATER[0]} to {LATER[-1]} of the main comparison "
    "test it afresh"
)


def _interval(pairs: Paired) -> str:
    gap = pairs.difference
    return f"{gap.mean:+.2f} points ({gap.low:+.2f} to {gap.high:+.2f})"


def _outcome(candidates: Sequence[Candidate], found: Frontier) -> str:
    """Which candidate came first on held-out images, and what it is on the test images."""
    best = candidates[0].title
    tests = [c for c in found.against_rival if c.one.title == best]
    if not tests:
        return f"{best} came first; it has not been run on the test images yet."
    on_test = f"On the test images it differs from {title(RIVAL)} by {_interval(tests[0].pairs)}"
    return f"{best} came first. {on_test}: {_decided(tests[0])}."


def _decided(test: Compared) -> str:
    gap = test.pairs.difference
    if test.chance < SIGNIFICANT:
        return "it is better" if gap.mean > 0 else "it is worse"
    if gap.low is not None and gap.high is not None and gap.low * gap.high > 0:
        corrected = f"corrected for all tests on this page, p is {test.chance:.2f}"
        return f"its interval excludes zero, but {corrected}"
    return "that decides nothing"


def _search(candidates: Sequence[Candidate]) -> str:
    """The candidates on held-out images, seed by seed."""
    if not candidates:
        return "Not run yet.\n"
    seeds = list(candidates[0].faa)
    rows: list[list[Value]] = [
        [one.title, one.compute, *(one.faa[seed] for seed in seeds), one.mean] for one in candidates
    ]
    return Table(
        ["sum", "compute", *(f"seed {seed}" for seed in seeds), "mean"], rows
    ).to_markdown()


def _missing(sums: Sequence[Sum]) -> str:
    lines = [f"- {one.title} ({len(one.runs)} of {len(SEEDS)} seeds)" for one in sums]
    return "\n".join(["## Not run yet\n", *lines, ""]) if lines else ""
