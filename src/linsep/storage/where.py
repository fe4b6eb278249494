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
DEEPEST = 50  # brackets and nots within each other


@dataclass(frozen=True)
class Compared:
    field: str
    sign: str
    value: Scalar


@dataclass(frozen=True)
class Among:
    field: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class Not:
    inner: "Expression"


@dataclass(frozen=True)
class Joined:
    """All of them hold, or any."""

    word: str  # and | or
    inner: "tuple[Expression, ...]"


Expression = Compared | Among | Not | Joined

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


def parse(text: str) -> Expression:
    """The expression a text stands for; a ConfigError says what is wrong, and where."""
    return _Parser(text).whole()


def matches(expression: Expression, facts: Facts) -> bool:
    match expression:
        case Compared(field, sign, value):
            return _compare(field, facts.get(field), sign, value)
        case Among(field, values):
            return any(_equal(facts.get(field), value) for value in values)
        case Not(inner):
            return not matches(inner, facts)
        case Joined("and", inner):
            return all(matches(part, facts) for part in inner)
        case Joined(_, inner):
            return any(matches(part, facts) for part in inner)


def fields(expression: Expression) -> list[str]:
    """Every field it names, once each, in order."""
    match expression:
        case Compared(field) | Among(field):
            return [field]
        case Not(inner):
            return fields(inner)
        case Joined(_, inner):
            return list(dict.fromkeys(name for part in inner for name in fields(part)))


def renamed(expression: Expression, full: Callable[[str], str]) -> Expression:
    """The same with every field's name replaced."""
    match expression:
        case Compared(field, sign, value):
            return Compared(full(field), sign, value)
        case Among(field, values):
            return Among(full(field), values)
        case Not(inner):
            return Not(renamed(inner, full))
        case Joined(word, inner):
            return Joined(word, tuple(renamed(part, full) for part in inner))


def spelled(expression: Expression) -> str:
    """As text that parses to the same expression."""
    match expression:
        case Compared(field, sign, value):
            return f"{field} {sign} {_literal(value)}"
        case Among(field, values):
            return f"{field} in ({', '.join(map(_literal, values))})"
        case Not(inner):
            return f"not ({spelled(inner)})"
        case Joined(word, inner):
            return f" {word} ".join(f"({spelled(part)})" for part in inner)


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
    def __init__(self, text: str) -> None:
        self.text = text
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

    def whole(self) -> Expression:
        if not self.tokens:
            raise ConfigError("--where is empty: it should look like memory=200 and seed<3")
        found = self.joined("or")
        if self.at < len(self.tokens):
            self.fail(f"expected 'and' or 'or', not {self.peek()!r}")
        return found

    def joined(self, word: str) -> Expression:
        parts = [self.joined("and") if word == "or" else self.factor()]
        while self.takes(word):
            parts.append(self.joined("and") if word == "or" else self.factor())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def factor(self) -> Expression:
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(f"nested more than {DEEPEST} deep")
        if self.takes("not"):
            found: Expression = Not(self.factor())
        elif self.takes("("):
            found = self.joined("or")
            self.expect(")")
        else:
            found = self.comparison()
        self.depth -= 1
        return found

    def comparison(self) -> Expression:
        kind, name, _ = self.token()
        if kind != "word" or name.lower() in WORDS:
            self.fail(f"expected a field, not {name!r}" if name else "a field is missing")
        self.at += 1
        if self.takes("not"):
            self.expect("in")
            return Not(self.among(name))
        if self.takes("in"):
            return self.among(name)
        kind, sign, _ = self.token()
        if kind != "sign":
            seen = f", not {sign!r}" if sign else ""
            self.fail(f"expected one of {' '.join(SIGNS)} or in after {name!r}{seen}")
        self.at += 1
        return Compared(name, "=" if sign == "==" else sign, self.value())

    def among(self, name: str) -> Among:
        self.expect("(")
        values = [self.value()]
        while self.takes(","):
            values.append(self.value())
        self.expect(")")
        return Among(name, tuple(values))

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
    if sign == "=":
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
