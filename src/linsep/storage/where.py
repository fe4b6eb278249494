"""A filter over named values: `scenario=split-cifar10 and memory in (200, 500) and not faa < 40`.

    comparison   field = value, != < <= > >=, field in (value, value), field not in (...)
    together     and, or, not, brackets; `not` binds closest, then `and`
    value        a number, true, false, a bare word, or anything in quotes

Knows text and mappings. Knows no field by name and evaluates nothing but what it has parsed itself.
A field that something does not have equals nothing: `=`, `<` and `in` are false, `!=` is true.
"""

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ..errors import ConfigError

Scalar = str | int | float | bool
Facts = Mapping[str, Scalar | None]
Test = Callable[[Facts], bool]
DEEPEST = 50  # brackets and nots within each other


@dataclass(frozen=True)
class Condition:
    holds: Test
    fields: tuple[str, ...]  # that it names, as they were typed


ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
SIGNS = ("=", "==", "!=", *ORDERED)
WORDS = ("and", "or", "not", "in")
TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"[^"]*"|'[^']*')
      | (?P<sign>==|!=|<=|>=|=|<|>)
      | (?P<mark>[(),])
      | (?P<word>[^\s=!<>(),'"]+)
    )""",
    re.VERBOSE,
)


def parse(text: str, full: Callable[[str], str] = str) -> Condition:
    """Parse a condition; `full` gives a field's name in the facts.

    A ConfigError states what is wrong, and where.
    """
    parser = _Parser(text, full)
    return Condition(parser.whole(), tuple(dict.fromkeys(parser.fields)))


def value_of(word: str) -> Scalar:
    """A bare word as it is meant: 5, 0.1, true, or text."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for number in (int, float):
        try:
            return number(word)
        except ValueError:
            continue
    return word


class _Parser:
    def __init__(self, text: str, full: Callable[[str], str]) -> None:
        self.text, self.full = text, full
        self.fields: list[str] = []
        self.tokens: list[tuple[str, str, int]] = []  # kind, text, where
        self.at, self.depth = 0, 0
        end, length = 0, len(text.rstrip())
        while end < length:
            found = TOKEN.match(text, end)
            if found is None or found.lastgroup is None:
                start = len(text) - len(text[end:].lstrip())
                self.fail(f"{text[start]!r} is not understood", start)
            kind = found.lastgroup
            self.tokens.append((kind, found[kind], found.start(kind)))
            end = found.end()

    def whole(self) -> Test:
        if not self.tokens:
            raise ConfigError("--where is empty: it should look like memory=200 and seed<3")
        found = self.joined("or")
        if self.at < len(self.tokens):
            self.fail(f"expected 'and' or 'or', not {self.peek()!r}")
        return found

    def joined(self, word: str) -> Test:
        parts = [self.joined("and") if word == "or" else self.factor()]
        while self.takes(word):
            parts.append(self.joined("and") if word == "or" else self.factor())
        every = any if word == "or" else all
        return lambda facts: every(part(facts) for part in parts)

    def factor(self) -> Test:
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(f"nested more than {DEEPEST} deep")
        if self.takes("not"):
            inner = self.factor()
            found: Test = lambda facts: not inner(facts)  # noqa: E731
        elif self.takes("("):
            found = self.joined("or")
            self.expect(")")
        else:
            found = self.comparison()
        self.depth -= 1
        return found

    def comparison(self) -> Test:
        kind, name, _ = self.token()
        if kind != "word" or name.lower() in WORDS:
            self.fail(f"expected a field, not {name!r}" if name else "a field is missing")
        self.at += 1
        self.fields.append(name)
        field = self.full(name)
        if without := self.takes("not"):
            self.expect("in")
        if without or self.takes("in"):
            values = self.values()
            return lambda facts: any(_equal(facts.get(field), v) for v in values) != without
        kind, sign, _ = self.token()
        if kind != "sign":
            seen = f", not {sign!r}" if sign else ""
            self.fail(f"expected one of {' '.join(SIGNS)} or in after {name!r}{seen}")
        self.at += 1
        value = self.value()
        return lambda facts: _compare(field, facts.get(field), sign, value)

    def values(self) -> list[Scalar]:
        self.expect("(")
        values = [self.value()]
        while self.takes(","):
            values.append(self.value())
        self.expect(")")
        return values

    def value(self) -> Scalar:
        kind, text, _ = self.token()
        if kind not in ("word", "quoted") or (kind == "word" and text.lower() in WORDS):
            self.fail(f"expected a value, not {text!r}" if text else "a value is missing")
        self.at += 1
        return text[1:-1] if kind == "quoted" else value_of(text)

    def token(self) -> tuple[str, str, int]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "", len(self.text))

    def peek(self) -> str:
        return self.token()[1]

    def takes(self, wanted: str) -> bool:
        kind, text, _ = self.token()
        if kind == "quoted" or text.lower() != wanted:
            return False
        self.at += 1
        return True

    def expect(self, wanted: str) -> None:
        if not self.takes(wanted):
            seen = f", not {self.peek()!r}" if self.peek() else ""
            self.fail(f"expected {wanted!r}{seen}")

    def fail(self, problem: str, where: int | None = None) -> NoReturn:
        where = self.token()[2] if where is None else where
        raise ConfigError(f"--where {self.text!r}, character {where + 1}: {problem}")


def _compare(field: str, found: Scalar | None, sign: str, value: Scalar) -> bool:
    if sign in ("=", "=="):
        return _equal(found, value)
    if sign == "!=":
        return not _equal(found, value)
    if found is None:
        return False
    if isinstance(found, bool) or isinstance(value, bool):
        raise ConfigError(
            f"--where: {field} {sign} {_literal(value)}: true and false have no order"
        )
    if isinstance(found, str) != isinstance(value, str):
        kind = "text" if isinstance(found, str) else "a number"
        raise ConfigError(f"--where: {field} is {kind}, {_literal(value)} is not")
    return ORDERED[sign](found, value)


def _equal(found: Scalar | None, value: Scalar) -> bool:
    """Numbers by value; true is not 1; a number in quotes is text."""
    if isinstance(found, bool) or isinstance(value, bool):
        return found is value
    return found == value


def _literal(value: Scalar) -> str:
    if not isinstance(value, str):
        return json.dumps(value) if isinstance(value, bool) else repr(value)
    plain = TOKEN.fullmatch(value)
    bare = plain is not None and plain.lastgroup == "word" and value == plain["word"]
    if bare and value.lower() not in WORDS and isinstance(value_of(value), str):
        return value
    return f'"{value}"' if '"' not in value else f"'{value}'"
