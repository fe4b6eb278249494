"""A table's layout in each format: terminal, plain text, Markdown, HTML, LaTeX, CSV.

Numbers come rounded, and with marks at the best, from tables.py.
"""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table as RichTable


class Cell(NamedTuple):
    text: str
    best: bool
    number: float | None  # in full, where the value is one


@dataclass(frozen=True)
class Layout:
    """A table as text, before any format's escapes."""

    caption: str
    columns: list[str]
    rows: list[list[Cell]]
    numeric: list[bool]  # columns that are set flush right
    ends: set[int]  # the last row of each group
    upper: list[str]  # a heading above each column, or ""

    @property
    def lower(self) -> list[str]:
        """The columns' names without the headings above them."""
        named = zip(self.columns, self.upper, strict=True)
        return [name.removeprefix(head).strip() if head else name for name, head in named]

    def parted(self, row: int) -> bool:
        """Whether another group follows the row."""
        return row in self.ends and row + 1 < len(self.rows)


LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "`": r"\`{}",
    "[": "{[}", "]": "{]}",  # a row that starts with [ would be an argument of the \\ before it
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "±": r"$\pm$", "×": r"$\times$", "−": "$-$", "≤": r"$\le$", "≥": r"$\ge$", "→": r"$\to$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "Δ": r"$\Delta$", "σ": r"$\sigma$",
}  # fmt: skip


def rich(layout: Layout) -> "RichTable":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    title = Text(layout.caption) if layout.caption else None
    drawn = RichTable(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    upper = layout.upper if any(layout.upper) else None
    for i, (name, numeric) in enumerate(zip(layout.lower, layout.numeric, strict=True)):
        head = f"{_one_line(upper[i])}\n{name}" if upper else name
        drawn.add_column(Text(head), justify="right" if numeric else "left", overflow="fold")
    for i, row in enumerate(layout.rows):
        cells = [Text(cell.text, style="bold" if cell.best else "") for cell in row]
        drawn.add_row(*cells, end_section=i in layout.ends)
    return drawn


def text(layout: Layout, mark: tuple[str, str]) -> str:
    head = [_one_line(name) for name in layout.columns]
    body = [[_one_line(cell.text) for cell in row] for row in layout.rows]
    wide = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    sides = [str.rjust if numeric else str.ljust for numeric in layout.numeric]
    lines = [layout.caption] if layout.caption else []
    lines.append("  ".join(map(lambda s, t, w: s(t, w), sides, head, wide)).rstrip())
    lines.append("  ".join("─" * width for width in wide))
    for i, (row, texts) in enumerate(zip(layout.rows, body, strict=True)):
        marked = _marked(row, _one_line, *mark)
        widths = [w + len(m) - len(t) for w, m, t in zip(wide, marked, texts, strict=True)]
        lines.append("  ".join(map(lambda s, t, w: s(t, w), sides, marked, widths)).rstrip())
        if layout.parted(i):
            lines.append("")
    return "\n".join(lines) + "\n"


def markdown(layout: Layout) -> str:
    rules = ["---:" if numeric else "---" for numeric in layout.numeric]
    body = [_marked(row, _markdown, "**", "**") for row in layout.rows]
    rows = [map(_markdown, layout.columns), rules, *body]
    caption = [_markdown(layout.caption), ""] if layout.caption else []
    return "\n".join([*caption, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def html(layout: Layout, marked: Collection[tuple[int, int]]) -> str:
    kinds = [' class="number"' if numeric else "" for numeric in layout.numeric]
    named = zip(layout.columns, kinds, strict=True)
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in named)
    parts = ["<table>"]
    parts += [f"<caption>{escape(layout.caption)}</caption>"] if layout.caption else []
    parts += [f"<thead><tr>{head}</tr></thead>", "<tbody>"]
    for i, row in enumerate(layout.rows):
        cells = []
        texts = _marked(row, escape, "<strong>", "</strong>")
        for j, (cell, content) in enumerate(zip(row, texts, strict=True)):
            content = f"<mark>{content}</mark>" if (i, j) in marked else content
            value = f' data-value="{cell.number!r}"' if cell.number is not None else ""
            cells.append(f"<td{kinds[j]}{value}>{content}</td>")
        parts.append(f"<tr>{''.join(cells)}</tr>")
        if layout.parted(i):
            parts.append("</tbody><tbody>")
    return "\n".join([*parts, "</tbody>", "</table>"]) + "\n"


def latex(layout: Layout, label: str) -> str:
    sides = "".join("r" if numeric else "l" for numeric in layout.numeric)
    head = "  " + " & ".join(map(_latex, layout.lower)) + r" \\"
    lines = [r"\begin{table}", r"\centering"]
    lines += [rf"\caption{{{_latex(layout.caption)}}}"] if layout.caption else []
    lines += [rf"\label{{{label}}}"] if label else []
    lines += [rf"\begin{{tabular}}{{{sides}}}", r"  \toprule"]
    lines += [*_upper(layout.upper), head, r"  \midrule"]
    for i, row in enumerate(layout.rows):
        lines.append("  " + " & ".join(_marked(row, _latex, r"\textbf{", "}")) + r" \\")
        if layout.parted(i):
            lines.append(r"  \midrule")
    return "\n".join([*lines, r"  \bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def _upper(heads: list[str]) -> list[str]:
    """LaTeX's line of headings above the columns that share them, and the rules below these."""
    if not any(heads):
        return []
    cells, rules, first = [], [], 1
    for head, group in groupby(heads):
        count = len(list(group))
        last = first + count - 1
        if head:
            cells.append(rf"\multicolumn{{{count}}}{{c}}{{{_latex(head)}}}")
            rules.append(rf"\cmidrule(lr){{{first}-{last}}}")
        else:
            cells += [""] * count
        first = last + 1
    return ["  " + " & ".join(cells).strip() + r" \\", "  " + " ".join(rules)]


def csv_text(rows: Iterable[Iterable[str | float | None]]) -> str:
    out = io.StringIO()
    plain = ([_plain(value) if isinstance(value, str) else value for value in row] for row in rows)
    csv.writer(out, lineterminator="\n").writerows(plain)
    return out.getvalue()


def _marked(row: list[Cell], escaped: Callable[[str], str], before: str, after: str) -> list[str]:
    """A row's texts, with marks around the best."""
    texts = [(escaped(cell.text), cell.best) for cell in row]
    return [f"{before}{text}{after}" if best else text for text, best in texts]


def _plain(text: str) -> str:
    """On one line, and no formula: a name that a spreadsheet would evaluate gets a ' before it."""
    line = re.sub(r"[\r\n]+", " ", text)  # csv leaves a CR unquoted, and readers start a row there
    return f"'{line}" if re.match(r"\s*([=+@]|-(?![\d.]|$))", line) else line


def _markdown(text: str) -> str:
    """Escaped; an underscore inside a word needs no escape, at its edge it would start emphasis."""
    escaped = re.sub(r"([\\|*`<\[\]~])", r"\\\1", _one_line(text))
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", escaped)


def _latex(text: str) -> str:
    """Escaped; a minus before a number is set as one, and hyphens do not join to a dash."""
    escaped = "".join(LATEX.get(character, character) for character in _one_line(text))
    return re.sub(r"(?<!\S)-(?=\d)", "$-$", escaped.replace("--", "-{}-"))


def _one_line(text: str) -> str:
    return " ".join(text.split())
