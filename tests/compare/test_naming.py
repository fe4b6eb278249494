"""What variants, blocks and data are called: by what differs, or as the user says."""

import io
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from linsep.compare.summaries import differences, remarks, summary
from linsep.compare.tables import fitted, show
from linsep.compare.variants import OWN, Variant, compare, data_title, telling
from linsep.data.registry import SOURCES
from linsep.storage.store import Store
from tests.helpers.made_runs import make_run


def variants(runs: Path) -> list[Variant]:
    return list(compare(Store(runs).records()).variants)


def titles(runs: Path) -> list[str]:
    return [variant.title for variant in variants(runs)]


rows = st.lists(st.fixed_dictionaries({n: st.integers(0, 2) for n in "abcd"}), max_size=8)


@given(rows)
def test_labels_tell_apart_what_all_fields_do_and_none_is_needless(
    found: list[dict[str, int]],
) -> None:
    def apart(names: list[str]) -> int:
        return len({tuple(row[name] for name in names) for row in found})

    told = telling(found)
    assert apart(told) == apart(list("abcd"))
    for name in told:
        assert apart([other for other in told if other != name]) < apart(told)


def test_a_variant_is_called_by_what_differs(tmp_path: Path) -> None:
    """The base's own option is the same in both variants with BFP, and is not said there."""
    for weight, init in ((0.5, "default"), (3.0, "default"), (3.0, "identity")):
        settings = {"er": {"replay_ce": 1.0}, "bfp": {"weight": weight, "init": init}}
        make_run(tmp_path, "er+bfp", 0, 50.0, settings=settings, label=f"{weight}{init}")
    for ce in (1.0, 2.0):
        make_run(tmp_path, "er", 0, 50.0, settings={"er": {"replay_ce": ce}}, label=f"{ce}")
    make_run(tmp_path, "er+bfp+fd", 0, 50.0, settings={"fd": {"weight": 7.0}})
    assert titles(tmp_path) == [
        "ER, replay_ce=1", "ER, replay_ce=2",
        "ER + BFP, γ=0.5, BFP init=default", "ER + BFP, γ=3, BFP init=default",
        "ER + BFP, γ=3, BFP init=identity", "ER + BFP + FD",
    ]  # fmt: skip


def test_a_block_is_called_by_what_differs(tmp_path: Path) -> None:
    """Net, epochs and data change with the scenario, which is enough to say."""
    for name, rows in product(("split-cifar10", "split-mnist"), (200, 500)):
        settings = {
            "scenario": {"name": name}, "memory": {"size": rows},
            "net": {"name": f"net of {name}"}, "training": {"epochs": len(name)},
        }  # fmt: skip
        make_run(tmp_path, "er", 0, 50.0, settings=settings, label=name)
    alike = {"net": {"name": "net of split-cifar10"}, "training": {"epochs": 13}}
    make_run(tmp_path, "ft", 0, 50.0, settings=alike | {"memory": {"size": 0}})
    assert [variant.place for variant in variants(tmp_path)] == [
        "Split CIFAR-10, no memory", "Split CIFAR-10, memory=200", "Split CIFAR-10, memory=500",
        "Split MNIST, memory=200", "Split MNIST, memory=500",
    ]  # fmt: skip


def test_the_name_of_a_variant_is_the_users_if_it_is_its_own(tmp_path: Path) -> None:
    def named(method: str, seed: int, name: str) -> None:
        make_run(tmp_path, method, seed, 50.0, settings={"name": name} if name else None)

    for seed in range(2):
        named("er+bfp", seed, "ours")
        named("er", seed, f"try {seed}")  # not one name
        named("derpp", seed, "theirs")  # not of one variant
        named("derpp+bfp", seed, "theirs")
        named("ft", seed, "JT")  # what another is called
        named("jt", seed, "")
    assert titles(tmp_path) == ["DER++", "DER++ + BFP", "ER", "ours", "FT", "JT"]
    found = compare(Store(tmp_path).records())
    assert "ours" in [row[1] for row in summary(found).rows]
    assert "ours is ER + BFP" in remarks(found)


def test_own_data_is_called_by_its_name_or_its_file() -> None:
    assert data_title({"scenario.name": "folder", "scenario.data": "/x/photos/"}) == "photos"
    assert data_title({"scenario.name": "code", "scenario.data": "mine.py:make"}) == "mine.py:make"
    assert data_title({"scenario.name": "arrays"}) == "arrays"
    named = {"scenario.name": "table", "scenario.data": "a.csv", "scenario.data_name": "shoes"}
    assert data_title(named) == "shoes"
    assert data_title({"scenario.name": "split-mnist", "scenario.data": "/d"}) == "Split MNIST"


def test_own_data_are_those_of_the_registry() -> None:
    own = {name for name, source in SOURCES.items() if source.layout and not source.published}
    assert set(OWN) == own


# --- widths --------------------------------------------------------------------------------------


def printed(table: object, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), color_system=None, force_terminal=True)
    show(table, console)  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.fixture
def ordinary(tmp_path: Path) -> Path:
    for seed, rows in product(range(3), (200, 500)):
        for method in ("er_ace", "derpp", "derpp+bfp", "jt"):
            settings = {"memory": {"size": 0 if method == "jt" else rows}}
            if not (tmp_path / f"jt-0-s{seed}").exists() or method != "jt":
                make_run(tmp_path, method, seed, 50.0 + seed, settings=settings)
    return tmp_path


@pytest.mark.parametrize("width", [80, 160])
def test_a_row_is_a_line_and_names_are_whole(ordinary: Path, width: int) -> None:
    comparison = compare(Store(ordinary).records())
    for table in (summary(comparison), differences(comparison)):
        lines = printed(table, width)
        assert max(map(len, lines)) <= width
        assert not any("…" in line for line in lines)
        starts = [row[1] for row in table.rows]
        assert sum("DER++ + BFP" in line for line in lines) == starts.count("DER++ + BFP")
        numbers = [line for line in lines if "± " in line and "± standard" not in line]
        assert len(numbers) == len(table.rows)


def test_what_there_is_no_room_for_is_left_out_and_named(ordinary: Path) -> None:
    table = summary(compare(Store(ordinary).records()))
    assert fitted(table, 160) == ([table], [])
    parts, gone = fitted(table, 80)
    assert gone == ["FAA 95 %", "FF 95 %", "ALA 95 %"]
    assert [list(part.columns) for part in parts] == [["method", "seeds", "FAA", "FF", "ALA"]] * 6
    assert [part.caption for part in parts[:2]] == [
        "Split CIFAR-10; ResNet-18 of width 8, 2 epochs per task; "
        "mean ± standard deviation over 3 seeds: Class-IL, no memory",
        "Class-IL, memory=200",
    ]
    assert printed(table, 80)[-1] == "Left out to fit 80 columns: FAA 95 %, FF 95 %, ALA 95 %."
    whole = [cell for part in parts for row in part.rows for cell in row]
    assert whole == [row[i] for row in table.rows for i in (1, 2, 3, 5, 7)]
