"""A filter over named values: `scenario=split-cifar10 and memory in (200, 500) and not faa < 40`.

    comparison   field = value, != < <= > >=, field in (value, value), field not in (...)
    together     and, or, not, brackets; `not` binds closest, then `and`
    value        a number, true, false, a bare word, or anything in quotes

Knows text and mappings. Knows no field by name and evaluates nothing but what it has parsed itself.
A field that something does not have equals nothing: `=`, `<` and `in` are false, `!=` is true.
"""

import operator
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from ..errors import ConfigError

T = TypeVar("T")
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
    r"""(?P<quoted>"[^"]*"|'[^']*')
      | (?P<sign>==|!=|<=|>=|=|<|>)
      | (?P<mark>[(),])
      | (?P<word>[^\s=!<>(),'"]+)
      | (?P<other>\S)""",
    re.VERBOSE,
)


def parse(text: str, full: Callable[[str], str] = str, lists: Collection[str] = ()) -> Condition:
    """Parse a condition; `full` gives a field's name in the facts.

    A field in `lists` holds several words, "a, b", and equals each of them.

    A ConfigError states what is wrong, and where.
    """
    if not text.strip():
        raise ConfigError("--where is empty: it should look like memory=200 and seed<3")
    parser = _Parser(text, full, lists)
    holds = parser.either()
    if parser.kind != "end":
        parser.expected("'and' or 'or'")
    return Condition(holds, tuple(dict.fromkeys(parser.fields)))


def value_of(word: str) -> Scalar:
    """A bare word as it is meant: 5, 0.1, true, or text."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for number in (int, float):
        with suppress(ValueError):
            return number(word)
    return word


class _Parser:
    """Recursive descent; `kind`, `word` and `start` are those of the token it has come to."""

    def __init__(self, text: str, full: Callable[[str], str], lists: Collection[str]) -> None:
        self.text, self.full, self.lists, self.depth = text, full, lists, 0
        self.fields: list[str] = []
        self.tokens = TOKEN.finditer(text)
        self.advance()

    def advance(self) -> None:
        found = next(self.tokens, None)
        self.kind = found.lastgroup if found else "end"
        self.word, self.start = (found[0], found.start()) if found else ("", len(self.text))
        if self.word.lower() in WORDS:
            self.kind = "keyword"

    def either(self) -> Test:
        parts = self.several(self.both, "or")
        return lambda facts: any(part(facts) for part in parts)

    def both(self) -> Test:
        parts = self.several(self.factor, "and")
        return lambda facts: all(part(facts) for part in parts)

    def factor(self) -> Test:
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(f"nested more than {DEEPEST} deep")
        if self.takes("not"):
            inner = self.factor()
            found: Test = lambda facts: not inner(facts)  # noqa: E731
        elif self.takes("("):
            found = self.either()
            self.expect(")")
        else:
            found = self.comparison()
        self.depth -= 1
        return found

    def comparison(self) -> Test:
        name = self.one_of("field", "word")
        self.fields.append(name)
        field = self.full(name)
        equal = _among if field in self.lists else _equal
        if without := self.takes("not"):
            self.expect("in")
        if without or self.takes("in"):
            self.expect("(")
            values = self.several(self.value, ",")
            self.expect(")")
            return lambda facts: any(equal(facts.get(field), v) for v in values) != without
        sign = self.word
        if self.kind != "sign":
            self.expected(f"one of {' '.join(SIGNS)} or in after {name!r}")
        self.advance()
        typed, value = self.word, self.value()
        if sign not in ORDERED:
            return lambda facts: equal(facts.get(field), value) == (sign != "!=")
        return lambda facts: _ordered(field, facts.get(field), sign, value, typed)

    def value(self) -> Scalar:
        quoted, word = self.kind == "quoted", self.one_of("value", "word", "quoted")
        return word[1:-1] if quoted else value_of(word)

    def several(self, one: Callable[[], T], between: str) -> list[T]:
        found = [one()]
        while self.takes(between):
            found.append(one())
        return found

    def takes(self, wanted: str) -> bool:
        taken = self.word.lower() == wanted
        if taken:
            self.advance()
        return taken

    def expect(self, wanted: str) -> None:
        if not self.takes(wanted):
            self.expected(repr(wanted))

    def one_of(self, what: str, *kinds: str) -> str:
        word = self.word
        if self.kind == "end":
            self.fail(f"a {what} is missing")
        if self.kind not in kinds:
            self.expected(f"a {what}")
        self.advance()
        return word

    def expected(self, wanted: str) -> NoReturn:
        self.fail(f"expected {wanted}" + (f", not {self.word!r}" if self.word else ""))

    def fail(self, problem: str) -> NoReturn:
        problem = f"{self.word!r} is not understood" if self.kind == "other" else problem
        raise ConfigError(f"--where {self.text!r}, character {self.start + 1}: {problem}")


def _ordered(field: str, found: Scalar | None, sign: str, value: Scalar, typed: str) -> bool:
    if found is None:
        return False
    if isinstance(found, bool) or isinstance(value, bool):
        raise ConfigError(f"--where: {field} {sign} {typed}: true and false have no order")
    if isinstance(found, str) != isinstance(value, str):
        kind = "text" if isinstance(found, str) else "a number"
        raise ConfigError(f"--where: {field} is {kind}, {typed} is not")
    return ORDERED[sign](found, value)


def _equal(found: Scalar | None, value: Scalar) -> bool:
    """Numbers by value; true is not 1; a number in quotes is text."""
    if isinstance(found, bool) or isinstance(value, bool):
        return found is value
    return found == value


def _among(found: Scalar | None, value: Scalar) -> bool:
    """Whether a word of "a, b" is the value, as text or as the number or the truth it spells."""
    words = [] if found is None else str(found).split(", ")
    return any(word == value or _equal(value_of(word), value) for word in words)
