"""The filter language: what it accepts, what it means, and how it refuses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linsep.errors import ConfigError
from linsep.storage.where import (
    SIGNS,
    WORDS,
    Among,
    Compared,
    Expression,
    Joined,
    Not,
    Scalar,
    fields,
    matches,
    parse,
    renamed,
    spelled,
)

FACTS: dict[str, Scalar | None] = {
    "method": "derpp+bfp",
    "memory": 200,
    "lr": 0.03,
    "masked": True,
    "faa": 72.21,
}

words = st.from_regex(r"[a-z][a-z0-9_.+/-]{0,8}", fullmatch=True).filter(lambda w: w not in WORDS)
text = st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-999, 999) | st.floats(-1e9, 1e9, allow_nan=False)
values = st.one_of(words, text, numbers, st.booleans())
comparisons = st.one_of(
    st.builds(Compared, words, st.sampled_from([s for s in SIGNS if s != "=="]), values),
    st.builds(Among, words, st.lists(values, min_size=1, max_size=3).map(tuple)),
)


def _joined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Not, inner), st.builds(Joined, st.sampled_from(("and", "or")), several)
    )


expressions = st.recursive(comparisons, _joined, max_leaves=8)


@given(expressions)
def test_what_is_written_out_parses_to_the_same(expression: Expression) -> None:
    assert parse(spelled(expression)) == expression


@given(expressions)
def test_names_are_found_and_replaced(expression: Expression) -> None:
    longer = renamed(expression, lambda name: f"long.{name}")
    assert fields(longer) == [f"long.{name}" for name in fields(expression)]


@given(st.text(max_size=30))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    refused = ""
    try:
        parse(text)
    except ConfigError as error:
        refused = str(error)
    assert "\n" not in refused


# An oracle of its own: Python's operators on three numbers.
small = st.integers(0, 3)
atoms = st.builds(
    Compared, st.sampled_from("xyz"), st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), small
)


def _python(expression: Expression) -> str:
    match expression:
        case Compared(field, sign, value):
            return f"({field} {'==' if sign == '=' else sign} {value})"
        case Among(field, among):
            return f"({field} in {among})"
        case Not(inner):
            return f"(not {_python(inner)})"
        case Joined(word, inner):
            return "(" + f" {word} ".join(map(_python, inner)) + ")"


@given(st.recursive(atoms, _joined, max_leaves=8), small, small, small)
def test_it_means_what_python_means(expression: Expression, x: int, y: int, z: int) -> None:
    facts = {"x": x, "y": y, "z": z}
    assert matches(parse(spelled(expression)), facts) == eval(_python(expression), {}, facts)


MEANT = {
    "method=derpp+bfp": True,
    "method = 'derpp+bfp' and memory == 200": True,
    "memory in (200, 500)": True,
    "memory not in (200,500)": False,
    "not memory in (200) or faa > 70": True,
    "lr <= 3e-2 AND masked=true": True,
    "masked = 1": False,
    "memory = '200'": False,
    "method=er or memory=200 and lr<0.01": False,
    "(method=er or memory=200) and lr<0.1": True,
    "absent = 1": False,
    "absent != 1": True,
    "absent < 1 or absent >= 1": False,
    "not absent = 1": True,
}


@pytest.mark.parametrize("text", MEANT)
def test_examples(text: str) -> None:
    assert matches(parse(text), FACTS) is MEANT[text]


REFUSED = {
    "": "empty",
    "memory": "expected one of",
    "memory=": "a value is missing",
    "memory=200 and": "a field is missing",
    "memory=200 seed=1": "expected 'and' or 'or', not 'seed'",
    "memory in 200": "expected '('",
    "memory in (200": "expected ')'",
    "(memory=200": "expected ')'",
    "memory=200)": "expected 'and' or 'or'",
    "=200": "expected a field",
    "memory=and": "expected a value",
    'memory="200': "is not understood",
    "memory ! 200": "'!' is not understood",
    "(" * 2000 + "memory=200" + ")" * 2000: "deep",
    "not " * 2000 + "memory=200": "deep",
    "1=1; DROP TABLE runs": "expected 'and' or 'or'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_say_what_and_where(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert REFUSED[text] in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("method < 3", "method is text"), ("memory < er", "a number"), ("masked > 0", "no order")],
)
def test_things_without_an_order_are_not_ordered(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        matches(parse(text), FACTS)


def test_nothing_is_evaluated() -> None:
    found: Any = parse("name=__import__ and x='os.system'")
    assert [part.value for part in found.inner] == ["__import__", "os.system"]
