"""A table as data: values under named columns, which of them are best, and where groups end.

    Table(("method", "FAA"), [("er", Spread(58.07, 2.92))], best={"FAA": "max"}).to_markdown()

Numbers are rounded and ranked here; renderings.py escapes text and lays it out in each format.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress, groupby, product
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ConfigError, unknown
from . import renderings
from .renderings import Cell, Layout

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

LONG = 200  # rows, above which a table is drawn plainly
WIDEST = 100_000  # characters of a table that is measured
Best = Literal["max", "min"]


@dataclass(frozen=True)
class Spread:
    """mean ± std; the std is None where there is only one value."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Interval:
    """mean (low to high); the ends are None where there is only one value."""

    mean: float
    low: float | None = None
    high: float | None = None


Value = str | int | float | Spread | Interval | None


@dataclass(frozen=True)
class Table:
    """Rows of values under named columns.

    `best` says for which columns the highest ("max") or lowest ("min") number is marked; numbers
    that print alike tie. With `group`, a column's name, neighbouring rows that are equal there form
    a group with its own best; terminal and LaTeX rule a line between groups. Rows in `unranked`,
    such as upper bounds, are never the best. CSV and JSON keep all digits, the other formats round
    to `digits`.

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

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns):
            raise ConfigError(f"two columns share a name: {', '.join(self.columns)}")
        group = [self.group] if self.group is not None else []
        for name in (*self.best, *group, *self.upper, *chain(*self.spare)):
            if name not in self.columns:
                raise ConfigError(unknown("column", name, self.columns))
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ConfigError(f"{len(row)} values for {len(self.columns)} columns: {row!r}")

    def to_rich(self) -> "RichTable":
        """A table for a rich console to print."""
        return renderings.rich(self._layout())

    def to_text(self, mark: tuple[str, str] = ("", "")) -> str:
        """As `to_rich` draws it, but fast for thousands of rows; `mark` goes around the best."""
        return renderings.text(self._layout(), mark)

    def to_markdown(self) -> str:
        return renderings.markdown(self._layout())

    def to_html(self, marked: Collection[tuple[int, int]] = ()) -> str:
        """A <table>, every group a <tbody>; numbers as `data-value` too, for a script to sort by.

        `marked` are (row, column) places that stand out.
        """
        return renderings.html(self._layout(), marked)

    def to_latex(self, label: str = "") -> str:
        """A floating table; the document needs \\usepackage{booktabs}."""
        return renderings.latex(self._layout(), label)

    def to_csv(self) -> str:
        """A column with spreads becomes two: "FAA" holds the mean, "FAA std" the std.

        One with intervals becomes three: "FAA", "FAA low" and "FAA high".
        """
        kinds = [{type(value) for value in column} for column in self._turned()]
        kept = [
            part
            for found in kinds
            for part in (True, Spread in found, Interval in found, Interval in found)
        ]
        table: list[list[tuple[str | float | None, ...]]] = [
            [(name, f"{name} std", f"{name} low", f"{name} high") for name in self.columns],
            *([_parts(value) for value in row] for row in self.rows),
        ]
        return renderings.csv_text(compress(chain(*row), kept) for row in table)

    def to_json(self) -> str:
        """{"caption", "columns", "rows": [{column: value}]}; a spread is {"mean", "std"}, an
        interval {"mean", "low", "high"}.

        NaN and infinity, which JSON does not have, become null.
        """
        rows = [dict(zip(self.columns, map(_json, row), strict=True)) for row in self.rows]
        whole = {"caption": self.caption, "columns": list(self.columns), "rows": rows}
        return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def without(self, *names: str) -> "Table":
        """The same table without some columns; of columns it has."""
        kept = [i for i, column in enumerate(self.columns) if column not in names]
        return replace(
            self,
            columns=[self.columns[i] for i in kept],
            rows=[[row[i] for i in kept] for row in self.rows],
            best={column: best for column, best in self.best.items() if column not in names},
            group=None if self.group in names else self.group,
            upper={column: head for column, head in self.upper.items() if column not in names},
            spare=[rest for step in self.spare if (rest := [n for n in step if n not in names])],
        )

    def split(self) -> "list[Table]":
        """A table of each group, which its caption names, without the column that did."""
        if self.group is None:
            return [self]
        column, parts = list(self.columns).index(self.group), []
        for rows in self._groups():
            unranked = [at for at, row in enumerate(rows) if row in self.unranked]
            caption = ": ".join(filter(None, [self.caption, str(self.rows[rows[0]][column])]))
            part = replace(self, rows=[self.rows[row] for row in rows], unranked=unranked)
            parts.append(replace(part, caption=caption).without(self.group))
        return parts

    def _layout(self) -> Layout:
        """The table as text, with what is set flush right, marked as best, or ends a group."""
        best = self._best()
        cells = [
            [Cell(self._text(v), (i, j) in best, _number(v)) for j, v in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]
        numeric = [bool(c) and not any(isinstance(v, str) for v in c) for c in self._turned()]
        ends = {group[-1] for group in self._groups()}
        upper = [self.upper.get(name, "") for name in self.columns]
        return Layout(self.caption, list(self.columns), cells, numeric, ends, upper)

    def _turned(self) -> list[list[Value]]:
        """The values of each column."""
        return [[row[j] for row in self.rows] for j in range(len(self.columns))]

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

    def _groups(self) -> list[list[int]]:
        """The numbers of the rows in each group; all of them without groups."""
        column = None if self.group is None else list(self.columns).index(self.group)
        names = [None if column is None else row[column] for row in self.rows]
        return [list(rows) for _, rows in groupby(range(len(names)), names.__getitem__)]

    def _best(self) -> set[tuple[int, int]]:
        """(row, column) of the values that are the best of their column, within their group."""
        found: set[tuple[int, int]] = set()
        for rows, (name, direction) in product(self._groups(), self.best.items()):
            column = list(self.columns).index(name)
            ranked = [at for at in rows if at not in self.unranked]
            numbers = {at: _number(self.rows[at][column]) for at in ranked}
            known = {at: round(n, self.digits) for at, n in numbers.items() if n is not None}
            top = (max if direction == "max" else min)(known.values(), default=None)
            found |= {(at, column) for at, number in known.items() if number == top}
        return found


def draw(table: Table, console: "Console") -> None:
    """Print a table with as many columns as there is room for; a long one without rich, which
    would take seconds."""
    parts, gone = fitted(table, console)
    bold = ("\033[1m", "\033[0m") if console.is_terminal else ("", "")
    for part in parts:
        if len(part.rows) > LONG:
            console.file.write(part.to_text(bold))
        else:
            console.print(part.to_rich())
    if gone:
        text = f"Left out to fit {console.width} columns: {', '.join(gone)}."
        console.print(text, style="dim", highlight=False, markup=False)


def fitted(table: Table, console: "Console") -> tuple[list[Table], list[str]]:
    """The table, or one of each group, without the columns that there is no room for; and those."""
    from rich.measure import Measurement

    endless = console.options.update_width(WIDEST)  # else all would be said to fit

    def width(part: Table) -> int:
        if len(part.rows) > LONG:
            return max(map(len, part.to_text().splitlines()))
        return Measurement.get(console, endless, part.to_rich()).maximum

    def fits(parts: list[Table]) -> bool:
        return all(width(part) <= console.width for part in parts)

    parts, gone, steps = [table], list[str](), list(table.spare)
    while steps and not fits(parts):
        step = steps.pop(0)
        if table.group in step:
            parts = [part for whole in parts for part in whole.split()]
        names = [name for name in step if name != table.group]
        parts, gone = [part.without(*names) for part in parts], gone + names
    return parts, gone


def _parts(value: Value) -> tuple[str | float | None, ...]:
    """Mean, std, low and high."""
    if isinstance(value, Interval):
        return value.mean, None, value.low, value.high
    if isinstance(value, Spread):
        return value.mean, value.std, None, None
    return value, None, None, None


def _json(value: Value) -> Any:
    if isinstance(value, Spread):
        return {"mean": _json(value.mean), "std": _json(value.std)}
    if isinstance(value, Interval):
        return {"mean": _json(value.mean), "low": _json(value.low), "high": _json(value.high)}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Value) -> float | None:
    number = value.mean if isinstance(value, Spread | Interval) else value
    if number is None or isinstance(number, str) or math.isnan(number):
        return None
    return float(number)
