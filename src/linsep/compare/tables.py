"""A table as data, and its renderings: terminal, text, Markdown, HTML, LaTeX, CSV and JSON.

Table(("method", "FAA"), [("er", Spread(58.07, 2.92))], best={"FAA": "max"}).to_markdown()
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from itertools import groupby, product, zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console

NARROW = 8  # characters of a column of text, above which it is wrapped before a number is
Best = Literal["max", "min"]
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "`": r"\`{}",
    "[": "{[}", "]": "{]}",  # a row that starts with [ would be an argument of the \\ before it
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "±": r"$\pm$", "×": r"$\times$", "−": "$-$", "≤": r"$\le$", "≥": r"$\ge$", "→": r"$\to$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "λ": r"$\lambda$", "Δ": r"$\Delta$",
    "σ": r"$\sigma$",
}  # fmt: skip


@dataclass(frozen=True)
class Spread:
    """mean ± std; the std is None where there is only one value."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Interval:
    """mean (low to high); the ends are None where there are too few values."""

    mean: float
    low: float | None = None
    high: float | None = None


Value = str | int | float | Spread | Interval | None
PARTS = {"mean": "", "std": " std", "low": " low", "high": " high"}  # columns of CSV


@dataclass(frozen=True)
class Table:
    """Rows of values under named columns.

    `best` says for which columns the highest ("max") or lowest ("min") number is marked; numbers
    that print alike tie. With `group`, a column's name, neighbouring rows that are equal there form
    a group with its own best; terminal and LaTeX rule a line between groups. `families` are rows
    after which LaTeX leaves a space within a group. Rows in `unranked`, such as upper bounds, are
    never the best. CSV and JSON keep all digits, the other formats round to `digits`.

    A column in `upper` has a name that starts with this heading, which terminal and LaTeX put above
    it, once for neighbours that share it. `spare` names columns to leave out, step by step, where a
    terminal is narrow; leaving out that of the groups makes a table of each.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    caption: str = ""
    best: Mapping[str, Best] = field(default_factory=dict)
    group: str | None = None
    digits: int = 2
    unranked: Collection[int] = ()
    upper: Mapping[str, str] = field(default_factory=dict)
    spare: Sequence[Sequence[str]] = ()
    families: Collection[int] = ()

    # --- renderings ------------------------------------------------------------------------------

    def to_text(self, width: int = 0, mark: tuple[str, str] = ("", "")) -> str:
        """For a terminal: cells wrap to fit a `width`, and `mark` goes around the best."""
        heads = [self._heads(), self._lower()] if self.upper else [self.columns]
        heads, body = [list(map(_one_line, head)) for head in heads], self._texts(_one_line)
        numeric, best, ends = self._numeric(), self._best(), self._ends()
        wide = [max(map(len, column)) for column in zip(*heads, *body, strict=True)]
        while 0 < width < sum(wide) + 2 * len(wide) - 2 and max(wide) > 1:
            free = [w > NARROW and not number for w, number in zip(wide, numeric, strict=True)]
            wide[max(range(len(wide)), key=lambda j: (free[j], wide[j]))] -= 1

        sides = [f"{'>' if number else '<'}{w}" for w, number in zip(wide, numeric, strict=True)]

        def lines(texts: Sequence[str], marked: Collection[int] = ()) -> Iterator[str]:
            wrapped = [wrap(t, w) if len(t) > w else [t] for t, w in zip(texts, wide, strict=True)]
            for row in zip_longest(*wrapped, fillvalue=""):
                cells = list(map(format, row, sides))
                for j in marked:
                    cells[j] = mark[0] + cells[j] + mark[1]
                yield "  ".join(cells).rstrip()

        found = wrap(self.caption, width) if width else [self.caption] * bool(self.caption)
        found += [line for head in heads for line in lines(head)]
        found.append("  ".join("─" * room for room in wide))
        for i, texts in enumerate(body):
            found += lines(texts, {j for j in range(len(wide)) if (i, j) in best})
            found += [""] * (i in ends)
        return "\n".join(found) + "\n"

    def to_markdown(self) -> str:
        rules = ["---:" if numeric else "---" for numeric in self._numeric()]
        rows = [map(_markdown, self.columns), rules, *self._texts(_markdown, "**", "**")]
        caption = [_markdown(self.caption), ""] if self.caption else []
        return "\n".join([*caption, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"

    def to_html(self, marked: Collection[tuple[int, int]] = ()) -> str:
        """A <table>, every group a <tbody>; numbers as `data-value` too, for a script to sort by.

        `marked` are (row, column) places that stand out.
        """
        kinds = [' class="number"' if numeric else "" for numeric in self._numeric()]
        named = zip(self.columns, kinds, strict=True)
        head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in named)
        ends = self._ends()
        parts = [f"<caption>{escape(self.caption)}</caption>"] if self.caption else []
        parts += [f"<thead><tr>{head}</tr></thead>", "<tbody>"]
        for i, texts in enumerate(self._texts(escape, "<strong>", "</strong>")):
            cells = []
            for j, text in enumerate(texts):
                number = _number(self.rows[i][j])
                value = f' data-value="{number!r}"' if number is not None else ""
                content = f"<mark>{text}</mark>" if (i, j) in marked else text
                cells.append(f"<td{kinds[j]}{value}>{content}</td>")
            parts.append(f"<tr>{''.join(cells)}</tr>")
            parts += ["</tbody><tbody>"] * (i in ends)
        return "\n".join(["<table>", *parts, "</tbody>", "</table>"]) + "\n"

    def to_latex(self, label: str = "") -> str:
        """A floating table; the document needs \\usepackage{booktabs}."""
        sides = "".join("r" if numeric else "l" for numeric in self._numeric())
        lines, ends = [r"\begin{table}", r"\centering"], self._ends()
        lines += [rf"\caption{{{_latex(self.caption)}}}"] if self.caption else []
        lines += [rf"\label{{{label}}}"] if label else []
        lines += [rf"\begin{{tabular}}{{{sides}}}", r"  \toprule", *self._latex_heads()]
        lines += ["  " + " & ".join(map(_latex, self._lower())) + r" \\", r"  \midrule"]
        for i, texts in enumerate(self._texts(_latex, r"\textbf{", "}")):
            lines.append("  " + " & ".join(texts) + r" \\")
            lines += [r"  \midrule"] if i in ends else []
            lines += [r"  \addlinespace"] if i in self.families else []
        return "\n".join([*lines, r"  \bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"

    def _latex_heads(self) -> list[str]:
        """The headings above the columns that share them, and the rules below these."""
        cells, rules, first = list[str](), list[str](), 1
        for head, group in groupby(self._heads()):
            count = len(list(group))
            if head:
                cells.append(rf"\multicolumn{{{count}}}{{c}}{{{_latex(head)}}}")
                rules.append(rf"\cmidrule(lr){{{first}-{first + count - 1}}}")
            else:
                cells += [""] * count
            first += count
        return ["  " + " & ".join(cells).strip() + r" \\", "  " + " ".join(rules)] if rules else []

    def to_csv(self) -> str:
        """A column with spreads becomes two: "FAA" holds the mean, "FAA std" the std.

        One with intervals becomes three: "FAA", "FAA low" and "FAA high".
        """
        parts = [
            (j, part)
            for j, part in product(range(len(self.columns)), PARTS)
            if part == "mean" or any(hasattr(row[j], part) for row in self.rows)
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_plain(self.columns[j] + PARTS[part]) for j, part in parts)
        for row in self.rows:
            whole = [getattr(row[j], p, row[j] if p == "mean" else None) for j, p in parts]
            writer.writerow(_plain(value) if isinstance(value, str) else value for value in whole)
        return out.getvalue()

    def to_json(self) -> str:
        """{"caption", "columns", "rows": [{column: value}]}; a spread is {"mean", "std"}, an
        interval {"mean", "low", "high"}. NaN and infinity become null.
        """
        rows = [dict(zip(self.columns, map(_json, row), strict=True)) for row in self.rows]
        whole = {"caption": self.caption, "columns": list(self.columns), "rows": rows}
        return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    # --- parts of it -----------------------------------------------------------------------------

    def without(self, *names: str) -> "Table":
        """The same table without some columns."""
        kept = [i for i, column in enumerate(self.columns) if column not in names]
        return replace(
            self,
            columns=[self.columns[i] for i in kept],
            rows=[[row[i] for i in kept] for row in self.rows],
            group=None if self.group in names else self.group,
        )

    def without_empty(self, *names: str) -> "Table":
        """The same table without those of these columns that have no value in any row."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return self.without(*(n for n in names if all(row.get(n) is None for row in rows)))

    def split(self) -> "list[Table]":
        """A table of each group, which its caption names, without the column that did; what the
        whole table's caption says is said once."""
        if self.group is None:
            return [self]
        column, parts = list(self.columns).index(self.group), list[Table]()
        for rows in self._groups():
            first = self.caption if not parts else ""
            caption = ": ".join(filter(None, [first, str(self.rows[rows[0]][column])]))
            unranked = [at for at, row in enumerate(rows) if row in self.unranked]
            families = [at for at, row in enumerate(rows) if row in self.families]
            part = replace(self, rows=[self.rows[row] for row in rows], caption=caption)
            part = replace(part, unranked=unranked, families=families)
            parts.append(part.without(self.group))
        return parts

    # --- what the renderings share ---------------------------------------------------------------

    def _texts(
        self, escaped: Callable[[str], str], before: str = "", after: str = ""
    ) -> list[list[str]]:
        """Every cell as escaped text, with marks around the best."""
        texts = [[escaped(self._text(value)) for value in row] for row in self.rows]
        for i, j in self._best():
            texts[i][j] = f"{before}{texts[i][j]}{after}"
        return texts

    def _text(self, value: Value) -> str:
        if value is None:
            return "-"
        if isinstance(value, Spread):
            spread = "" if value.std is None else f" ± {self._text(value.std)}"
            return f"{self._text(float(value.mean))}{spread}"
        if isinstance(value, Interval):
            ends = [self._text(end) for end in (value.low, value.high) if end is not None]
            return self._text(float(value.mean)) + (f" ({' to '.join(ends)})" if ends else "")
        return f"{value:z.{self.digits}f}" if isinstance(value, float) else str(value)

    def _heads(self) -> list[str]:
        """The heading above each column, or ""."""
        return [self.upper.get(name, "") for name in self.columns]

    def _lower(self) -> list[str]:
        """The columns' names without the headings above them."""
        return [name.removeprefix(self.upper.get(name, "")).strip() for name in self.columns]

    def _numeric(self) -> list[bool]:
        """The columns that are set flush right."""
        columns = [[row[j] for row in self.rows] for j in range(len(self.columns))]
        return [bool(c) and not any(isinstance(v, str) for v in c) for c in columns]

    def _groups(self) -> list[list[int]]:
        """The numbers of the rows in each group; all of them without groups."""
        column = None if self.group is None else list(self.columns).index(self.group)
        names = [None if column is None else row[column] for row in self.rows]
        return [list(rows) for _, rows in groupby(range(len(names)), names.__getitem__)]

    def _ends(self) -> set[int]:
        """The rows after which another group follows."""
        return {rows[-1] for rows in self._groups()[:-1]}

    def _best(self) -> set[tuple[int, int]]:
        """(row, column) of the values that are the best of their column, within their group."""
        found: set[tuple[int, int]] = set()
        for rows, (column, name) in product(self._groups(), enumerate(self.columns)):
            ranked = [at for at in rows if name in self.best and at not in self.unranked]
            numbers = {at: _number(self.rows[at][column]) for at in ranked}
            known = {at: round(n, self.digits) for at, n in numbers.items() if n is not None}
            top = (max if self.best.get(name) == "max" else min)(known.values(), default=None)
            found |= {(at, column) for at, number in known.items() if number == top}
        return found


def show(table: Table, console: "Console") -> None:
    """Print a table with as many columns as there is room for."""
    parts, gone = fitted(table, console.width)
    bold = ("\033[1m", "\033[0m") if console.color_system else ("", "")
    for part in parts:
        console.out(part.to_text(console.width, bold), highlight=False)
    if gone:
        text = f"Left out to fit {console.width} columns: {', '.join(gone)}."
        console.print(text, style="dim", highlight=False, markup=False)


def fitted(table: Table, width: int) -> tuple[list[Table], list[str]]:
    """The table, or one of each group, without the columns that there is no room for; and those."""

    def too_wide(part: Table) -> bool:
        body = replace(part, caption="").to_text()
        return max(map(len, body.splitlines())) > width

    parts, gone, steps = [table], list[str](), list(table.spare)
    while steps and any(map(too_wide, parts)):
        step = steps.pop(0)
        if table.group in step:
            parts = [part for whole in parts for part in whole.split()]
        names = [name for name in step if name in table.columns and name != table.group]
        parts, gone = [part.without(*names) for part in parts], gone + names
    return parts, gone


def _json(value: Value) -> Any:
    if isinstance(value, Spread | Interval):
        return {name: _json(part) for name, part in asdict(value).items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Value) -> float | None:
    number = value.mean if isinstance(value, Spread | Interval) else value
    if number is None or isinstance(number, str) or math.isnan(number):
        return None
    return float(number)


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
