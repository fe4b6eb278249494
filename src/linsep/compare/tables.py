"""A table as data, and its renderings: terminal, Markdown, HTML, CSV, LaTeX, JSON.

    Table(("method", "FAA"), [("er", Spread(58.07, 2.92))], best={"FAA": "max"}).to_markdown()

Knows how numbers are written and text is escaped. Does not know what the numbers mean, where they
come from, or files. CSV and JSON keep numbers whole (a spread becomes two columns, or an object);
the others round to `digits`. The best of a column is marked in bold; numbers that print alike tie.
"""

import csv
import io
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ConfigError, unknown

LONG = 200  # rows, above which a table is drawn plainly

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

Best = Literal["max", "min"]


@dataclass(frozen=True)
class Spread:
    """mean ± std; the std is None where there is only one value."""

    mean: float
    std: float | None = None


Value = str | int | float | Spread | None

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\`{}",
    "[": "{[}",  # a row that starts with one would be an argument of the \\ before it
    "]": "{]}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "→": r"$\to$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "Δ": r"$\Delta$",
    "σ": r"$\sigma$",
}


@dataclass(frozen=True)
class Table:
    """Rows of values under named columns.

    `best` says for which columns the highest ("max") or lowest ("min") number is marked. With
    `group`, a column's name, neighbouring rows alike there form a group with its own best; terminal
    and LaTeX rule a line between groups.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    caption: str = ""
    best: Mapping[str, Best] = field(default_factory=dict)
    group: str | None = None
    digits: int = 2

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns):
            raise ConfigError(f"two columns share a name: {', '.join(self.columns)}")
        for name in (*self.best, *([self.group] if self.group is not None else [])):
            if name not in self.columns:
                raise ConfigError(unknown("column", name, self.columns))
        for direction in self.best.values():
            if direction not in ("max", "min"):
                raise ConfigError(unknown("direction of the best", direction, ("max", "min")))
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ConfigError(f"{len(row)} values for {len(self.columns)} columns: {row!r}")

    def to_rich(self) -> "RichTable":
        """For a rich console to print."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        title = Text(self.caption) if self.caption else None
        drawn = RichTable(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name, numeric in zip(self.columns, self._numeric(), strict=True):
            drawn.add_column(Text(name), justify="right" if numeric else "left")
        ends = self._group_ends()
        for i, (row, bold) in enumerate(zip(self.rows, self._bold(), strict=True)):
            cells = [
                Text(self._text(value), style="bold" if mark else "")
                for value, mark in zip(row, bold, strict=True)
            ]
            drawn.add_row(*cells, end_section=i in ends)
        return drawn

    def to_text(self, mark: tuple[str, str] = ("", "")) -> str:
        """As `to_rich` draws it, for any number of rows at once; `mark` goes around the best."""
        head = [_one_line(name) for name in self.columns]
        body = [[_one_line(self._text(value)) for value in row] for row in self.rows]
        wide = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        sides = [str.rjust if numeric else str.ljust for numeric in self._numeric()]
        lines = [self.caption] if self.caption else []
        lines.append("  ".join(map(lambda s, t, w: s(t, w), sides, head, wide)).rstrip())
        lines.append("  ".join("─" * width for width in wide))
        ends = self._group_ends()
        for i, (row, bold) in enumerate(zip(body, self._bold(), strict=True)):
            cells = [side(text, width) for side, text, width in zip(sides, row, wide, strict=True)]
            marked = [c if not b else c.replace(t, f"{mark[0]}{t}{mark[1]}")
                      for c, b, t in zip(cells, bold, row, strict=True)]  # fmt: skip
            lines.append("  ".join(marked).rstrip())
            if i in ends and i + 1 < len(body):
                lines.append("")
        return "\n".join(lines) + "\n"

    def to_markdown(self) -> str:
        rules = ["---:" if numeric else "---" for numeric in self._numeric()]
        lines = [_pipes([_markdown(name) for name in self.columns]), _pipes(rules)]
        for row, bold in zip(self.rows, self._bold(), strict=True):
            texts = [_markdown(self._text(value)) for value in row]
            marked = zip(texts, bold, strict=True)
            lines.append(_pipes([f"**{text}**" if mark else text for text, mark in marked]))
        if self.caption:
            lines = [_markdown(self.caption), "", *lines]
        return "\n".join(lines) + "\n"

    def to_html(self, marked: Collection[tuple[int, int]] = ()) -> str:
        """A <table>, every group a <tbody>; numbers as `data-value` too, for a script to sort by.

        `marked` are (row, column) places that stand out.
        """
        numeric = self._numeric()
        head = [_cell("th", escape(name), n) for name, n in zip(self.columns, numeric, strict=True)]
        parts = ["<table>", f"<caption>{escape(self.caption)}</caption>" if self.caption else ""]
        parts += [f"<thead><tr>{''.join(head)}</tr></thead>", "<tbody>"]
        ends = self._group_ends()
        for i, (row, bold) in enumerate(zip(self.rows, self._bold(), strict=True)):
            cells = []
            for j, (value, best) in enumerate(zip(row, bold, strict=True)):
                text = escape(self._text(value))
                text = f"<strong>{text}</strong>" if best else text
                text = f"<mark>{text}</mark>" if (i, j) in marked else text
                cells.append(_cell("td", text, numeric[j], _number(value)))
            parts.append(f"<tr>{''.join(cells)}</tr>")
            if i in ends and i + 1 < len(self.rows):
                parts.append("</tbody><tbody>")
        return "\n".join(filter(None, [*parts, "</tbody>", "</table>"])) + "\n"

    def to_latex(self, label: str = "") -> str:
        """A floating table; the document needs \\usepackage{booktabs}."""
        columns = "".join("r" if numeric else "l" for numeric in self._numeric())
        body: list[str] = []
        ends = self._group_ends()
        for i, (row, bold) in enumerate(zip(self.rows, self._bold(), strict=True)):
            texts = [_latex(self._text(value)) for value in row]
            marked = zip(texts, bold, strict=True)
            cells = [rf"\textbf{{{text}}}" if mark else text for text, mark in marked]
            body.append("  " + " & ".join(cells) + r" \\")
            if i in ends and i + 1 < len(self.rows):
                body.append(r"  \midrule")
        lines = [
            r"\begin{table}",
            r"\centering",
            *([rf"\caption{{{_latex(self.caption)}}}"] if self.caption else []),
            *([rf"\label{{{label}}}"] if label else []),
            rf"\begin{{tabular}}{{{columns}}}",
            r"  \toprule",
            "  " + " & ".join(map(_latex, self.columns)) + r" \\",
            r"  \midrule",
            *body,
            r"  \bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """A column with spreads becomes two: "FAA" holds the mean, "FAA std" the std."""
        spread = [any(isinstance(row[i], Spread) for row in self.rows) for i in self._indices()]
        header: list[str] = []
        for name, split in zip(self.columns, spread, strict=True):
            header += [name, f"{name} std"] if split else [name]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(header)
        for row in self.rows:
            cells: list[str | int | float | None] = []
            for value, split in zip(row, spread, strict=True):
                if isinstance(value, Spread):
                    cells += [value.mean, value.std]
                else:
                    plain = _no_formula(value) if isinstance(value, str) else value
                    cells += [plain, None] if split else [plain]
            writer.writerow(cells)
        return out.getvalue()

    def to_json(self) -> str:
        """{"caption", "columns", "rows": [{column: value}]}; a spread is {"mean", "std"}.

        NaN and infinity, which JSON does not have, become null.
        """
        rows = [
            {name: _json(value) for name, value in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]
        whole = {"caption": self.caption, "columns": list(self.columns), "rows": rows}
        return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def _indices(self) -> range:
        return range(len(self.columns))

    def _numeric(self) -> list[bool]:
        """Columns without text, which are set flush right."""
        return [
            bool(self.rows) and not any(isinstance(row[i], str) for row in self.rows)
            for i in self._indices()
        ]

    def _text(self, value: Value) -> str:
        if value is None:
            return "-"
        if isinstance(value, Spread):
            spread = "" if value.std is None else f" ± {self._text(value.std)}"
            return f"{self._text(float(value.mean))}{spread}"
        return f"{value:z.{self.digits}f}" if isinstance(value, float) else str(value)

    def _group_ends(self) -> set[int]:
        """The last row of each group; none without groups."""
        if self.group is None:
            return set()
        i = list(self.columns).index(self.group)
        names = [row[i] for row in self.rows]
        return {
            at for at in range(len(names)) if at + 1 == len(names) or names[at] != names[at + 1]
        }

    def _bold(self) -> list[list[bool]]:
        """Which values are the best of their column, within their group."""
        marks = [[False] * len(self.columns) for _ in self.rows]
        start = 0
        for end in sorted(self._group_ends() | {len(self.rows) - 1}):
            for name, direction in self.best.items():
                i = list(self.columns).index(name)
                found = {at: _number(self.rows[at][i]) for at in range(start, end + 1)}
                known = {at: round(n, self.digits) for at, n in found.items() if n is not None}
                top = (max if direction == "max" else min)(known.values(), default=None)
                for at, number in known.items():
                    marks[at][i] = number == top
            start = end + 1
        return marks


def draw(table: Table, console: "Console") -> None:
    """By rich, which fits a table to the terminal; a long one plainly, since rich takes seconds."""
    if len(table.rows) <= LONG:
        console.print(table.to_rich())
        return
    bold = ("\033[1m", "\033[0m") if console.is_terminal else ("", "")
    console.file.write(table.to_text(bold))


def _no_formula(text: str) -> str:
    """A name that a spreadsheet would take for a formula gets a ' before it, as users do there."""
    return f"'{text}" if re.match(r"[=+@\t\r]|-(?![\d.]|$)", text) else text


def _number(value: Value) -> float | None:
    if isinstance(value, Spread):
        value = value.mean
    if value is None or isinstance(value, str) or math.isnan(value):
        return None
    return float(value)


def _cell(tag: str, content: str, numeric: bool, number: float | None = None) -> str:
    kind = ' class="number"' if numeric else ""
    value = f' data-value="{number!r}"' if number is not None else ""
    return f"<{tag}{kind}{value}>{content}</{tag}>"


def _json(value: Value) -> Any:
    if isinstance(value, Spread):
        return {"mean": _json(value.mean), "std": _json(value.std)}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _pipes(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


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
