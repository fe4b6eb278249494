"""A table as data: values under named columns, which of them are best, and where groups end.

    Table(("method", "FAA"), [("er", Spread(58.07, 2.92))], best={"FAA": "max"}).to_markdown()

Knows how numbers are rounded and ranked. How text is escaped and laid out in each format is the
business of renderings.py; what the numbers mean, and where they come from, is the caller's.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, groupby, product
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ConfigError, unknown
from . import renderings
from .renderings import Cell, Layout

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

LONG = 200  # rows, above which a table is drawn plainly
Best = Literal["max", "min"]


@dataclass(frozen=True)
class Spread:
    """mean ± std; the std is None where there is only one value."""

    mean: float
    std: float | None = None


Value = str | int | float | Spread | None


@dataclass(frozen=True)
class Table:
    """Rows of values under named columns.

    `best` says for which columns the highest ("max") or lowest ("min") number is marked; numbers
    that print alike tie. With `group`, a column's name, neighbouring rows that are equal there form
    a group with its own best; terminal and LaTeX rule a line between groups. Rows in `unranked`,
    such as a bound, are never the best. CSV and JSON keep all digits, the other formats round to
    `digits`.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    caption: str = ""
    best: Mapping[str, Best] = field(default_factory=dict)
    group: str | None = None
    digits: int = 2
    unranked: Collection[int] = ()

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
        """A column with spreads becomes two: "FAA" holds the mean, "FAA std" the std."""
        split = [any(isinstance(value, Spread) for value in column) for column in self._turned()]
        kept = [half for std in split for half in (True, std)]
        table: list[list[tuple[str | float | None, ...]]] = [
            [(name, f"{name} std") for name in self.columns],
            *([_mean_and_std(value) for value in row] for row in self.rows),
        ]
        return renderings.csv_text(compress(chain(*row), kept) for row in table)

    def to_json(self) -> str:
        """{"caption", "columns", "rows": [{column: value}]}; a spread is {"mean", "std"}.

        NaN and infinity, which JSON does not have, become null.
        """
        rows = [dict(zip(self.columns, map(_json, row), strict=True)) for row in self.rows]
        whole = {"caption": self.caption, "columns": list(self.columns), "rows": rows}
        return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def _layout(self) -> Layout:
        """The table as text, with what is set flush right, marked as best, or ends a group."""
        best = self._best()
        cells = [
            [Cell(self._text(v), (i, j) in best, _number(v)) for j, v in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]
        numeric = [bool(c) and not any(isinstance(v, str) for v in c) for c in self._turned()]
        ends = {group[-1] for group in self._groups()}
        return Layout(self.caption, list(self.columns), cells, numeric, ends)

    def _turned(self) -> list[list[Value]]:
        """The values of each column."""
        return [[row[j] for row in self.rows] for j in range(len(self.columns))]

    def _text(self, value: Value) -> str:
        if value is None:
            return "-"
        if isinstance(value, Spread):
            spread = "" if value.std is None else f" ± {self._text(value.std)}"
            return f"{self._text(float(value.mean))}{spread}"
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
    """By rich, which fits a table to the terminal; a long one plainly, since rich takes seconds."""
    if len(table.rows) <= LONG:
        console.print(table.to_rich())
        return
    bold = ("\033[1m", "\033[0m") if console.is_terminal else ("", "")
    console.file.write(table.to_text(bold))


def _mean_and_std(value: Value) -> tuple[str | float | None, ...]:
    return (value.mean, value.std) if isinstance(value, Spread) else (value, None)


def _json(value: Value) -> Any:
    if isinstance(value, Spread):
        return {"mean": _json(value.mean), "std": _json(value.std)}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Value) -> float | None:
    number = value.mean if isinstance(value, Spread) else value
    if number is None or isinstance(number, str) or math.isnan(number):
        return None
    return float(number)
