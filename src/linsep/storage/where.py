"""A query over named values: `scenario=split-cifar10 and memory in (200, 500) and not faa < 40`.

    comparison   field = value, != < <= > >=, field in (value, value), field not in (...)
    together     and, or, not, brackets; `not` binds closest, then `and`
    value        a number, true, false, a bare word, or anything in quotes

A condition becomes a query of sqlite. Its columns have names of our own and its values are
parameters, so nothing that a user types is executed. A field that something does not have equals
nothing: `=`, `<` and `in` are false, `!=` is true.
"""

import json
import math
import re
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress

from ..errors import ConfigError
from ..settings.catalogue import method_name

Scalar = str | int | float | bool
Facts = Mapping[str, Scalar | None]
DEEPEST = 25  # brackets and nots that are open at once
KEYWORDS = ("and", "or", "not", "in")
MARKS = r"\s=!<>(),'\""
WORD = rf"(?!(?:{'|'.join(KEYWORDS)})(?:[{MARKS}]|$))[^{MARKS}]+"
VALUE = rf"""(?:"[^"]*"|'[^']*'|{WORD})"""
COMPARISON = rf"""(?P<field>{WORD})\s*(?:
    (?P<sign>==|!=|<=|>=|=|<|>)\s*(?P<value>{VALUE})
    | (?P<without>not\s+)?in\s*\(\s*(?P<values>{VALUE}(?:\s*,\s*{VALUE})*)\s*\)
)"""


class Query:
    """A condition and an order, 'method,-faa'; a ConfigError states what is wrong, and where.

    `full` gives a field's name in the facts. A field in `lists` holds several words, "a, b", and
    equals each of them.
    """

    def __init__(
        self,
        condition: str | None = None,
        sort: str | None = None,
        full: Callable[[str], str] = str,
        lists: Collection[str] = (),
    ) -> None:
        self._full, self._lists = full, lists
        self._columns: dict[str, str] = {}  # of the fields, by their names in full
        self._parameters: list[Scalar] = []
        self._ordered: list[tuple[str, str, Scalar]] = []  # comparisons with < and the like
        self.fields: list[str] = []  # of the condition, as they were typed
        self._where = "1" if condition is None else self._parsed(condition)
        keys = [name.strip() for name in (sort or "").split(",") if name.strip()]
        self.sorted_by = [key.removeprefix("-") for key in keys]
        self._order = "place"
        for key in reversed(keys):
            column, descending = self._column(key.removeprefix("-")), key.startswith("-")
            self._order = f"{column} IS NULL, {column}{' DESC' * descending}, {self._order}"

    def select(self, rows: Sequence[Facts]) -> list[int]:
        """The places of the rows for which the condition holds, in order."""
        for field, typed, value in self._ordered:
            _check_order(field, typed, value, [row.get(field) for row in rows])
        names = ", ".join(("place", *self._columns.values()))
        stored = ((i, *(self._stored(row, f) for f in self._columns)) for i, row in enumerate(rows))
        with closing(sqlite3.connect(":memory:")) as base:
            base.execute(f"CREATE TABLE facts ({names})")
            base.executemany(f"INSERT INTO facts VALUES (?{', ?' * len(self._columns)})", stored)
            query = f"SELECT place FROM facts WHERE {self._where} ORDER BY {self._order}"
            try:
                return [i for (i,) in base.execute(query, list(map(_sql, self._parameters)))]
            except sqlite3.Error as error:  # at its own limits
                raise ConfigError(f"--where: {error}") from None

    def _parsed(self, text: str) -> str:
        """Read a condition from left to right; sqlite knows which word binds closer."""
        if not text.strip():
            raise ConfigError("--where is empty: it should look like memory=200 and seed<3")
        at, brackets, parts = 0, 0, list[str]()

        def take(pattern: str) -> re.Match[str] | None:
            nonlocal at
            whole = re.compile(rf"\s*(?:{pattern})\s*", re.IGNORECASE | re.VERBOSE)
            found = whole.match(text, at)
            at = found.end() if found else at
            return found

        def expected(what: str) -> ConfigError:
            return ConfigError(f"--where {text!r}, character {at + 1}: expected {what}")

        while True:
            nots = 0
            while opened := take(rf"(\(|not(?=[{MARKS}]))"):
                parts.append(opened[1])
                nots += opened[1] != "("
                brackets += opened[1] == "("
                if brackets + nots > DEEPEST:
                    raise expected(f"at most {DEEPEST} brackets and nots within each other")
            if not (found := take(COMPARISON)):
                raise expected("a comparison such as memory=200 or seed in (0, 1)")
            parts.append(self._comparison(found))
            while brackets and take(r"\)"):
                parts.append(")")
                brackets -= 1
            if at == len(text) and not brackets:
                return " ".join(parts)
            if not (joint := take(rf"(and|or)(?=[{MARKS}]|$)")):
                raise expected("'and' or 'or'" + " or ')'" * bool(brackets))
            parts.append(joint[1])

    def _comparison(self, found: re.Match[str]) -> str:
        field, sign, column = found["field"], found["sign"], self._column(found["field"])
        self.fields.append(field)
        if sign in ("<", "<=", ">", ">="):
            self._ordered.append((self._full(field), found["value"], value_of(found["value"])))
            self._parameters.append(value_of(found["value"]))
            return f"ifnull({column} {sign} ?, 0)"
        several, equal = self._full(field) in self._lists, list[str]()
        for word in re.findall(VALUE, found["value"] or found["values"], re.IGNORECASE):
            value = _unquoted(word) if several else value_of(word)
            meant = {value, method_name(str(value))} if self._full(field) == "method" else {value}
            self._parameters += meant
            among = f"(SELECT value FROM json_each({column}))"
            equal += [f"? IN {among}" if several else f"{column} IS ?"] * len(meant)
        without = sign == "!=" or found["without"] is not None
        return f"{'NOT ' * without}({' OR '.join(equal)})"

    def _column(self, name: str) -> str:
        return self._columns.setdefault(self._full(name), f"field{len(self._columns)}")

    def _stored(self, row: Facts, field: str) -> str | int | float | bytes | None:
        value = row.get(field)
        if value is None:
            return None
        return _sql(json.dumps(str(value).split(", ")) if field in self._lists else value)


def value_of(word: str) -> Scalar:
    """A word as it is meant: 5, 0.1, true, or text, which it always is in quotes."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for number, largest in ((int, 2**63 - 1), (float, math.inf)):
        with suppress(ValueError):
            if abs(value := number(word)) <= largest:
                return value
    return _unquoted(word)


def _unquoted(word: str) -> str:
    return word[1:-1] if word[0] in "'\"" else word


def _sql(value: Scalar) -> str | int | float | bytes:
    """A value for sqlite, where true must not be 1, and text has no lone surrogates."""
    if isinstance(value, bool):
        return str(value).encode()
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def _check_order(field: str, typed: str, value: Scalar, found: Sequence[Scalar | None]) -> None:
    """Refuse to order what has no order: text and numbers, true and false."""
    known = [one for one in found if one is not None]
    if any(isinstance(one, bool) for one in (value, *known)):
        raise ConfigError(f"--where: {field} and {typed}: true and false have no order")
    if any(isinstance(one, str) != isinstance(value, str) for one in known):
        kind = "a number" if isinstance(value, str) else "text"
        raise ConfigError(f"--where: {field} is {kind}, {typed} is not")
