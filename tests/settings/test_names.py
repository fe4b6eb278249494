"""One vocabulary: a setting has one meaning by all its names, wherever it is given."""

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from linsep.cli import app
from linsep.cli.overrides import FLAGGED, SettingFlags, Typed, assigned, settings_from, varied
from linsep.errors import ConfigError
from linsep.grids.plan import expand
from linsep.settings.catalogue import ADDONS, METHODS, method_name
from linsep.settings.config import Config, all_settings, unknown_setting
from linsep.settings.layers import SHORT, flat, full_name, merged, read
from linsep.storage.store import Store
from linsep.storage.store import full_name as searched
from tests.helpers.command import command
from tests.helpers.made_runs import make_run

VALUES: dict[str, Any] = {
    "scenario": "blobs", "data": "images", "per_task": 2, "per_class": 7, "test_per_class": 3,
    "net": "mlp", "width": 8, "memory": 30, "epochs": 3, "lr": 0.5, "batch_size": 16,
    "device": "cpu", "threads": 2,
}  # fmt: skip


def flagged(**given: Any) -> list[Typed]:
    """Flags as a command receives them."""
    return SettingFlags(tuple(FLAGGED)).collect(given)


MAKERS = ("run", "grid", "search")
TEXT = {str: '"{}"', int: "{}", float: "{}"}


def toml(value: Any) -> str:
    return TEXT[type(value)].format(value)


def test_every_short_name_is_tested_but_labels() -> None:
    assert SHORT.keys() - VALUES.keys() == {"tag", "data_name"}


@pytest.mark.parametrize("short", VALUES)
def test_every_way_to_give_a_setting_gives_the_same(short: str, tmp_path: Path) -> None:
    value, full = VALUES[short], SHORT[short]
    file = tmp_path / "short.toml"
    file.write_text(f"{short} = {toml(value)}\n", encoding="utf-8")
    ways = [
        read(file),
        merged({short: value}),
        settings_from(None, flagged(**{short: value})),
        settings_from(None, assigned([f"{short}={value}"])),
        settings_from(None, assigned([f"{full}={value}"])),
        expand(settings_from(None, varied([f"{short}={value}"])))[0],
        expand(settings_from(None, varied([f"{full}={value}"])))[0],
    ]
    assert [flat(way) for way in ways] == [{full: value}] * len(ways)
    ranged = settings_from(None, varied([], [f"{short}=1..2"]))
    assert flat(ranged) == {f"search.{full}": "1..2"}
    nested = Config(**{short: value}).model_dump(exclude_unset=True)
    assert {full_name(name): v for name, v in flat(nested).items()} == {full: value}
    assert searched(short) == full


def test_every_short_name_is_a_setting_with_a_flag_of_each_command_that_makes_runs() -> None:
    known = {setting.name for setting in all_settings()} | {"net.width"}
    assert set(SHORT.values()) <= known
    commands = get_command(app).commands  # type: ignore[attr-defined]
    makers = [commands[name] for name in MAKERS] + [commands["paper"].commands["run"]]
    for maker in makers:
        flags = {flag for option in maker.params for flag in option.opts}
        for name in (*SHORT, "method", "seed", "preset"):
            assert f"--{name.replace('_', '-')}" in flags, (maker.name, name)
        assert {"--set", "--runs", "--save-every", "--quiet", "--keep", "--dry-run"} <= flags


def test_the_same_thing_has_the_same_flag_everywhere() -> None:
    """--format is a format, --output or -o a place to write to, and there are no other words."""

    def options(group: Any, path: str = "") -> Any:
        for name, found in getattr(group, "commands", {}).items():
            yield from options(found, f"{path} {name}")
        yield from ((path, set(option.opts)) for option in group.params)

    for path, words in options(get_command(app)):
        assert not words & {"--json", "--out", "--csv"}, path
        assert ("-o" in words) == ("--output" in words), path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("lr = 0.1\n[training]\nlr = 0.2\n", "lr and training.lr"),
        ("width = 8\n[net]\nwidth = 4\n", "width and net.width"),
        ("[net]\nwidth = 8\noptions.width = 4\n", "net.width and net.options.width"),
        ("[over]\nlr = [1.0]\ntraining.lr = [2.0]\n", "lr and training.lr"),
        ("[bfp]\nweight = 1.0\n[options.bfp]\nweight = 2.0\n", "bfp.weight and options.bfp.weight"),
    ],
)
def test_a_file_gives_a_setting_once(text: str, names: str, tmp_path: Path) -> None:
    file = tmp_path / "twice.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"twice.toml: {names} are the same setting"):
        read(file)


CONTRADICTIONS = {
    "--cell and --scenario": (
        ["run", "--cell", "split-cifar10/200/er", "--scenario", "blobs"],
        "has scenario split-cifar10, not blobs",
    ),
    "--cell and a memory": (
        ["grid", "--cell", "split-cifar10/ft", "--memory", "300", "--over", "seed=0,1"],
        "has no memory, not 300",
    ),
    "--cell and a list": (
        ["grid", "--cell", "split-cifar10/200/er", "--over", "method=er,der"], "has method er"
    ),
    "--cell and a config": (
        ["run", "example", "--cell", "split-cifar10/200/er"], "not fashion-mini"
    ),
    "a flag twice": (
        ["run", "--preset", "paper", "--preset", "authors"], "--preset is given twice"
    ),
    "a flag and --set": (
        ["run", "--lr", "0.1", "--set", "training.lr=0.2"], "both set training.lr"
    ),
    "two --set": (["run", "--set", "lr=0.1", "--set", "training.lr=0.2"], "both set training.lr"),
    "a flag and --over": (["grid", "--seed", "1", "--over", "seed=0..2"], "both set seed"),
    "a list and a range": (
        ["search", "--over", "lr=1,2", "--over-range", "training.lr=0.1..1"], "both set training.lr"
    ),
    "a table and --set": (["paper", "run", "1", "--set", "method=er"], "the table decides it"),
}  # fmt: skip


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_contradictions_are_refused_in_one_line(what: str, tmp_path: Path) -> None:
    words, expected = CONTRADICTIONS[what]
    if words[0] == "search":
        pytest.importorskip("optuna", reason="needs linsep[search]")
    said = command(*words, cwd=tmp_path)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)
    assert expected in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_typed_replaces_a_configs_value_list_or_range(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    text = 'seed = 3\n[over]\nmethod = ["er", "der"]\nlr = [1.0, 2.0]\n[search]\nepochs = "1..5"\n'
    file.write_text(text, encoding="utf-8")
    given = [*flagged(method="ft", epochs=2), *varied(["seed=0..1"])]
    found = settings_from(str(file), given)
    assert flat(found) == {
        "seed": 3, "method": "ft", "training.epochs": 2, "over.seed": [0, 1],
        "over.training.lr": [1.0, 2.0],
    }  # fmt: skip
    assert {one["seed"] for one in expand(found)} == {0, 1}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lrr", "lr"), ("momentum", "training.momentum"), ("epoch", "epochs"),
        ("learning_rate", "training.lr"), ("validaton", "scenario.validation"),
        ("batchsize", "batch_size"),
    ],
)  # fmt: skip
def test_a_misspelt_setting_is_answered_with_a_setting(typed: str, meant: str) -> None:
    assert f"Did you mean '{meant}'?" in unknown_setting(typed)


SPELLINGS = {
    "derpp+bfp": ("DER++ + BFP", "der++ + bfp", "der+++bfp", "DER++ w/ BFP", "DER++ with BFP"),
    "derpp": ("DER++", "der++", "DERPP"),
    "er_ace+bfp2": ("ER-ACE + BFP-2", "er-ace+bfp2", "ER ACE w/ BFP-2"),
    "ft": ("FT", "fine-tuning", "SGD"), "jt": ("Joint", "joint training"), "agem": ("A-GEM",),
}  # fmt: skip


def test_a_method_is_understood_as_people_write_it(tmp_path: Path) -> None:
    """On the command line, in a list, in Python, in a condition and as what is compared with."""
    for method, spellings in SPELLINGS.items():
        for text in spellings:
            assert Config(method=text).method == method, text
            listed = settings_from(None, varied([f"method=er,{text}"]))
            assert [one["method"] for one in expand(listed)] == ["er", method]
        run = make_run(tmp_path / "runs", method, 0, 61.25)
        found = Store(tmp_path / "runs").select(f"method='{spellings[0]}'")
        assert [record.folder for record in found] == [run]
    said = command("compare", "--against", "DER++ w/ BFP", cwd=tmp_path)
    assert said.returncode == 0, said.stderr


def test_every_name_and_title_is_understood_and_none_means_two_things() -> None:
    words = [(w, n) for n, e in METHODS.items() for w in (n, e.title, n.upper(), *e.spelled)]
    words += [(f"er + {w}", f"er+{n}") for n, e in ADDONS.items() for w in (n, e.title, *e.spelled)]
    assert {method_name(text): name for text, name in words} == {n: n for _, n in words}
    for text in ("derp", "mine.py:er_kd+bfp", "./a with b/mine.py:er_kd", "der++bfp"):
        assert method_name(text) == text
    own = {"custom": {"joint": {"source": "mine.py:joint"}}}
    assert Config(method="joint+bfp", **own).method == "joint+bfp"  # a function of the user's
