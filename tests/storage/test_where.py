"""The filter language: what it accepts, what it means, and how it refuses."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linsep.errors import ConfigError, printable
from linsep.storage.where import KEYWORDS, Facts, Query, Scalar

FACTS: dict[str, Scalar | None] = {
    "method": "derpp+bfp",
    "memory": 200,
    "lr": 0.03,
    "masked": True,
    "faa": 72.21,
}


def holds(condition: str, facts: Facts) -> bool:
    return Query(condition).select([facts]) == [0]


words = st.from_regex(r"[a-z][a-z0-9_.+/-]{0,8}", fullmatch=True).filter(
    lambda w: w not in KEYWORDS
)
text = st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-999, 999) | st.floats(-1e9, 1e9, allow_nan=False)
values = st.one_of(words, text, numbers, st.booleans())


@given(words, values)
def test_a_value_in_quotes_or_json_means_itself(field: str, value: Scalar) -> None:
    typed = f'"{value}"' if isinstance(value, str) else json.dumps(value)
    for condition in (f"{field} = {typed}", f"{field} in (other, {typed})"):
        rows: list[Facts] = [{field: value}, {field: None}, {field: "something else"}, {}]
        assert Query(condition).select(rows) == [0]


@given(st.text(max_size=30))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    refused = ""
    try:
        Query(text).select([FACTS])
    except ConfigError as error:
        refused = printable(str(error))  # as the command line prints it
    assert len(refused.splitlines()) <= 1


# An oracle of its own: Python's operators on three numbers. An expression is (ours, Python's).
Both = tuple[str, str]
EQUAL = {"=": "=="}
small = st.integers(0, 3)
signs = st.sampled_from(("=", "==", "!=", "<", "<=", ">", ">="))
atoms = st.builds(
    lambda field, sign, value: (f"{field}{sign}{value}", f"{field}{EQUAL.get(sign, sign)}{value}"),
    st.sampled_from("xyz"), signs, small,
) | st.builds(
    lambda field, word, among: (f"{field} {word} ({str(among)[1:-1]})", f"{field} {word} {among}"),
    st.sampled_from("xyz"), st.sampled_from(("in", "not in")), st.lists(small, min_size=1),
)  # fmt: skip


def _joined(inner: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
    """Without brackets at times: `not` binds closest, then `and`, as in Python."""
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        inner.map(lambda one: (f"not {one[0]}", f"not {one[1]}")),
        inner.map(lambda one: (f"({one[0]})", f"({one[1]})")),
        st.builds(
            lambda word, parts: tuple(f" {word} ".join(side) for side in zip(*parts, strict=True)),
            st.sampled_from(("and", "or")),
            several,
        ),
    )


@given(st.recursive(atoms, _joined, max_leaves=8), small, small, small)
def test_it_means_what_python_means(expression: Both, x: int, y: int, z: int) -> None:
    facts = {"x": x, "y": y, "z": z}
    assert holds(expression[0], facts) == bool(eval(expression[1], {}, facts))


MEANT = {
    "method = 'derpp+bfp' and memory == 200": True,
    "lr <= 3e-2 AND masked=true": True,
    "masked = 1": False,
    "memory = '200'": False,
    "absent = 1": False,
    "absent != 1": True,
    "absent < 1 or absent >= 1": False,
}


@pytest.mark.parametrize("text", MEANT)
def test_examples(text: str) -> None:
    assert holds(text, FACTS) is MEANT[text]


COMPARISON, JOINT = "expected a comparison such as", "expected 'and' or 'or'"
REFUSED = {
    "": "empty",
    "memory": f"character 1: {COMPARISON}",
    "memory=200 and": f"character 15: {COMPARISON}",
    "memory=200 seed=1": f"character 12: {JOINT}",
    "memory in (200": COMPARISON,
    "(memory=200": f"character 12: {JOINT} or ')'",
    'memory="200': COMPARISON,
    "(" * 2000 + "memory=200" + ")" * 2000: "within each other",
    "not " * 2000 + "memory=200": "within each other",
    " or ".join(["memory=200"] * 2000): "maximum depth",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_say_what_and_where(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Query(text).select([FACTS])
    assert REFUSED[text] in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("method < 3", "method is text"), ("memory < er", "a number"), ("masked > 0", "no order")],
)
def test_things_without_an_order_are_not_ordered(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        holds(text, FACTS)


def test_order() -> None:
    rows: list[Facts] = [{"x": 1}, {"x": None, "y": 2}, {"x": 3.5, "y": 1}, {"x": 1, "y": 5}]
    assert Query(sort="-x, y").select(rows) == [2, 3, 0, 1]
    assert Query("y>1", "x").select(rows) == [3, 1]
