"""Renew what pages of docs/ have from the code and the runs: figures, and what was decided.

    python scripts/renew_docs.py           write what is out of date
    python scripts/renew_docs.py --check   only name it; the exit code is 1 if anything is

The entrance has a picture of what is forgotten (entrance_figure.py). A page of a method has the
figure of one training step (step_figure.py); a page of a part has DER++ with the part, highlighted.
Between two marks, each page ends with the verdicts on the claims that its method has a part in, by
the runs in results/small, after what the method reaches on fashion-mini with tuned settings. That
comes from results/fashion-mini.csv, as do the tables of all methods:

    linsep grid all-fashion-mini --runs all
    linsep compare --runs all --metrics faa,task_il.faa,ff,ala --format csv \\
        -o results/fashion-mini.csv

docs/results.md also has the table of `make run`, from results/make-run.csv:

    make run
    linsep compare --metrics faa,ff,ala,task_il.faa,compute --format csv -o results/make-run.csv
"""

# ruff: noqa: E402

import csv
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for studies

import entrance_figure
import step_figure
from watched_step import watch

from linsep.methods import ADDONS, METHODS, assemble
from linsep.storage.store import Record, Store
from studies.claims import EVERY_CLAIM
from studies.evidence import Finding, findings
from studies.pages import replaced

PAGES, FIGURES = ROOT / "docs" / "methods", ROOT / "docs" / "figures"
RESULTS = ROOT / "results" / "small"
CARRIER = "derpp"  # the method that parts are drawn with
IMAGE = re.compile(r"^!\[.*\]\(\.\./figures/methods/\w+\.svg\)\n\n", re.MULTILINE)
FORMULA = re.compile(r"^\$\$\n.*?^\$\$\n\n", re.MULTILINE | re.DOTALL)
TUNED = ROOT / "results" / "fashion-mini.csv"
MADE = ROOT / "results" / "make-run.csv"
MADE_METRICS = ("Class-IL FAA", "Class-IL FF", "Class-IL ALA", "Task-IL FAA")
METRICS = ("Class-IL FAA", "Task-IL FAA", "Class-IL FF", "Class-IL ALA")
SEARCH = "../results.md#every-method-on-fashion-mini"
ROW = re.compile(r"^(?P<head>\| \[`(?P<name>\w+)`\]\(\w+\.md\) \| [^|]+ \| ).*\|$", re.MULTILINE)
OPTION = re.compile(r"^(?P<head>\| `(?P<name>\w+)` \| `[^`]*` \| ).*\|$", re.MULTILINE)
TESTED = "Claims that involve it, by paired runs ([Evidence](../evidence.md#verdicts)):"
RUN = "[Evidence](../evidence.md#every-run) has its runs on Split CIFAR-10, and no claim about it."
NOT_RUN = "It has no run on Split CIFAR-10 yet."


def renewed() -> Iterator[tuple[Path, str]]:
    """Every file that this script answers for, and what it should hold."""
    records = Store(RESULTS).records()
    yield FIGURES / "forgetting.svg", entrance_figure.draw(records)
    plain, decided, tuned = watch(CARRIER), Decided(records), Tuned()
    parts = {about.page or name for name, about in ADDONS.items()}
    methods = dict.fromkeys(about.page or name for name, about in METHODS.items())
    for page in [*(page for page in methods if page not in parts), *sorted(parts)]:
        added = page in parts
        path = PAGES / f"{page}.md"
        text = path.read_text("utf-8")
        if added or assemble(page, {}).trains:  # else there is no step to draw
            facts = watch(f"{CARRIER}+{page}" if added else page)
            drawing = step_figure.draw(facts, plain if added else None)
            yield FIGURES / "methods" / f"{page}.svg", drawing
            image = f"![{step_figure.short(facts)}](../figures/methods/{page}.svg)"
            text = with_figure(text, image)
        names = [name for name, about in ADDONS.items() if page in (name, about.page)]
        text = with_options(text, page)
        yield path, replaced(text, tuned.about(page) + decided.about(names or [page]))
    yield PAGES / "README.md", tuned.filled((PAGES / "README.md").read_text("utf-8"))
    results = ROOT / "docs" / "results.md"
    text = replaced(results.read_text("utf-8"), tuned.table(), "every method")
    yield results, replaced(text, Tuned(MADE).table(MADE_METRICS), "make run")


def with_figure(text: str, image: str) -> str:
    """The page with its image below the formula."""
    bare = IMAGE.sub("", text)
    formula = FORMULA.search(bare)
    assert formula is not None, bare.partition("\n")[0]
    return f"{bare[: formula.end()]}{image}\n\n{bare[formula.end() :]}"


def with_options(text: str, page: str) -> str:
    """The page with its options described as `linsep list settings` describes them."""
    lines = (METHODS | ADDONS)[page].options
    return OPTION.sub(lambda row: f"{row['head']}{lines[row['name']]} |", text)


class Tuned:
    """Methods on fashion-mini, as a file of results/ has them."""

    def __init__(self, path: Path = TUNED) -> None:
        names = {entry.title: name for name, entry in METHODS.items()}
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.rows = {names.get(row["method"], row["method"]): row for row in rows}

    def cell(self, method: str, metric: str) -> str:
        """'72.3 ± 0.9'; empty where the metric has no meaning."""
        row = self.rows[method]
        mean, std = row[metric], row.get(f"{metric} std")
        return f"{float(mean):.1f}" + (f" ± {float(std):.1f}" if std else "") if mean else ""

    def about(self, page: str) -> str:
        """For the page of a method; parts were not tuned."""
        if page not in self.rows:
            return ""
        here = " and ".join(f"{metric} {self.cell(page, metric)}" for metric in METRICS[:2])
        there = " and ".join(self.cell("ft", metric) for metric in METRICS[:2])
        than = "" if page == "ft" else f" (fine-tuning: {there})"
        return f"\nOn fashion-mini, [tuned as all methods are]({SEARCH}): {here}{than}.\n"

    def filled(self, text: str) -> str:
        """The page of all methods, with the numbers in their rows."""

        def row(found: re.Match[str]) -> str:
            cells = " | ".join(self.cell(found["name"], metric) for metric in METRICS[:2])
            return f"{found['head']}{cells} |"

        return ROW.sub(row, text)

    def table(self, metrics: Sequence[str] = METRICS) -> str:
        """From the least accurate on."""
        ranked = sorted(self.rows, key=lambda method: float(self.rows[method][metrics[0]]))
        lines = [f"| | {' | '.join(metrics)} |", "|---|" + "---:|" * len(metrics)]
        for method in ranked:
            lines.append(f"| {method} | {' | '.join(self.cell(method, m) for m in metrics)} |")
        return "\n".join([*lines, ""])


class Decided:
    """What the runs in results/small say of methods and parts."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.found = findings(EVERY_CLAIM, records)
        self.there = {str(record.facts["method"]) for record in records if record.finished}

    def about(self, names: Collection[str]) -> str:
        """For the page of these names: the claims and their verdicts, or that there are none."""
        mine = [f for f in self.found if any(_parts(m) & {*names} for m in _methods(f))]
        tested = [finding for finding in mine if finding.verdict != "not tested"]
        if tested:
            lines = [TESTED, "", *_grouped(tested)]
            if left := len(mine) - len(tested):
                lines.append(f"- **Not tested yet:** {left} more.")
        elif any(_parts(method) & {*names} for method in self.there):
            lines = [RUN]
        else:
            lines = [NOT_RUN]
        return "\n" + "\n".join([*lines, "", ""])


def _grouped(found: Sequence[Finding]) -> Iterator[str]:
    """A line for each verdict, with its claims."""
    for verdict in dict.fromkeys(finding.verdict for finding in found):
        claims = [finding.claim.text for finding in found if finding.verdict == verdict]
        yield f"- **{verdict.capitalize()}:** {' '.join(claims)}"


def _methods(finding: Finding) -> set[str]:
    sides = [(o.contrast.variant, o.contrast.against) for o in finding.outcomes]
    return {side.method for pair in sides for side in pair}


def _parts(method: str) -> set[str]:
    return set(method.split("+"))


def main() -> int:
    stale = 0
    for path, content in renewed():
        if not path.exists() or path.read_text("utf-8") != content:
            stale += 1
            print(path.relative_to(ROOT).as_posix())
            if "--check" not in sys.argv:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, "utf-8")
    return int("--check" in sys.argv and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
