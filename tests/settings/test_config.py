"""From what a user writes to what decides a run: shorthands, precedence, keys, and errors."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from pydantic import BaseModel

from linsep.errors import ConfigError, DeviceError, LinsepError
from linsep.methods import ADDONS, METHODS
from linsep.prepare import key, prepare
from linsep.randomness import Randomness
from linsep.resolve import resolve
from linsep.settings.catalogue import PRESETS
from linsep.settings.config import Config, from_settings, to_toml
from linsep.settings.layers import assignment, flat, full_name, merged, read

Settings = dict[str, Any]
BLOBS: Settings = {"scenario": "blobs"}


def config(settings: Mapping[str, Any]) -> Config:
    """As the command line does it."""
    return from_settings(settings)


def resolved(settings: Mapping[str, Any], *, lenient: bool = False) -> Settings:
    return resolve(config(settings), lenient=lenient).model_dump()


# --- what a user writes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (
            {"scenario": {"name": "blobs", "classes": 4, "per_task": 2}},
            {"scenario": {"name": "blobs", "per_task": 2, "options": {"classes": 4}}},
        ),
        ({"net": {"name": "cnn", "width": 4}}, {"net": {"name": "cnn", "options": {"width": 4}}}),
        ({"bfp": {"weight": 2}}, {"options": {"bfp": {"weight": 2}}}),
        (
            {"bfp": {"weight": 2}, "options": {"derpp": {"replay_ce": 1}}},
            {"options": {"bfp": {"weight": 2}, "derpp": {"replay_ce": 1}}},
        ),
    ],
)
def test_shorthands(short: Settings, long: Settings) -> None:
    assert config(BLOBS | short) == config(BLOBS | long)
    assert resolved(BLOBS | short) == resolved(BLOBS | long)


def test_later_layers_win_and_shorthands_merge() -> None:
    found = merged(
        {"memory": 50, "training": {"epochs": 3, "lr": 0.1}, "net": {"name": "cnn"}},
        {"memory": {"replay_batch_size": 8}, "training": {"epochs": 5}},
        {"net": "mlp", "memory": 60},
    )
    assert found == {
        "memory": {"size": 60, "replay_batch_size": 8},
        "training": {"epochs": 5, "lr": 0.1},
        "net": {"name": "mlp"},
    }


@pytest.mark.parametrize("text", ["training.epochs", "=5", ".a=5", "a..b=1", ""])
def test_bad_assignments(text: str) -> None:
    with pytest.raises(ConfigError, match=r"should look like training\.epochs=5"):
        assignment(text)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"method = ", "not TOML"), (b"\xff\xfe\x00", "not a text file"), (None, "No such file")],
)
def test_bad_files(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


NAMES = [*METHODS, *(f"er+{term}" for term in ADDONS), "derpp+bfp+fd"]


@pytest.mark.parametrize("name", NAMES)
def test_a_resolved_config_survives_its_file(name: str) -> None:
    """Whatever a run's folder holds as config.toml can be run again, and is the same run."""
    for preset in ({}, {"preset": "paper"}, {"preset": "fast"}):
        first = resolve(config(BLOBS | {"method": name} | preset))
        again = resolve(config(tomllib.loads(to_toml(first))))
        assert again.model_dump() == first.model_dump()
        assert key(again, "data") == key(first, "data")


# --- who decides ---------------------------------------------------------------------------------


def test_the_users_word_comes_first_and_defaults_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """User > preset > scenario > method > default, each shown against the next."""
    made = {
        "training": {"lr": 0.5, "momentum": 0.4, "epochs": 9},
        "options": {"er": {"replay_ce": 3}},
    }
    monkeypatch.setattr("linsep.resolve.PRESETS", {"paper": made})

    def training(settings: Settings) -> Settings:
        return resolved({"method": "er", "scenario": "split-imagenet100"} | settings)["training"]

    default = from_settings({}).training
    # Nobody says anything of the momentum; the method suggests its rate, the scenario its epochs.
    blobs = resolved(BLOBS | {"method": "derpp"})["training"]
    assert (blobs["momentum"], blobs["lr"]) == (default.momentum, 0.03)
    assert resolved(BLOBS | {"method": "er"})["training"]["lr"] == 0.1
    # ImageNet-100's own rate of 0.1 is above DER++'s 0.03.
    assert training({"method": "derpp"})["lr"] == 0.1
    assert training({})["epochs"] == 65
    # The preset is above both, the user above the preset.
    by_preset = training({"preset": "paper"})
    assert (by_preset["lr"], by_preset["momentum"], by_preset["epochs"]) == (0.5, 0.4, 9)
    assert by_preset["weight_decay"] == 5e-4  # what it leaves open is still the scenario's
    by_user = training({"preset": "paper", "training": {"lr": 0.7, "epochs": 2}})
    assert (by_user["lr"], by_user["momentum"], by_user["epochs"]) == (0.7, 0.4, 2)
    for given, expected in (({}, 3), ({"er": {"replay_ce": 2}}, 2)):
        options = resolved(BLOBS | {"method": "er", "preset": "paper"} | given)["options"]
        assert options["er"]["replay_ce"] == expected


# --- the presets, as FIDELITY.md has them --------------------------------------------------------

# Where the paper's text and its authors' program part: D1, D3, D4, D9, D11, D12.
CHOICES: dict[str, tuple[object, object]] = {
    "derpp.target": ("stored", "previous_net"),
    "derpp.distance": ("squared", "mse"),
    "derpp.first_task": (False, True),
    "bfp.scale": ("none", "root_d"),
    "memory.evict": ("one_largest", "all_largest"),
    "evaluation.mask_unseen": (True, False),
    "evaluation.rule": ("method", "logits"),
}


def test_presets_part_where_the_papers_text_and_its_program_do() -> None:
    for number, preset in enumerate(("paper", "authors")):
        settings = {"scenario": "split-cifar10", "method": "derpp+bfp", "preset": preset}
        found = {full_name(name): value for name, value in flat(resolved(settings)).items()}
        assert {n: found[n] for n in CHOICES} == {n: both[number] for n, both in CHOICES.items()}
        assert found["bfp.on"] == "both"
        assert (found["training.lr"], found["training.epochs"]) == (0.03, 50)


@pytest.mark.parametrize("preset", ["paper", "authors"])
@pytest.mark.parametrize(
    ("scenario", "per_task", "epochs", "batch", "milestones"),
    [
        ("split-cifar10", 2, 50, 32, ()),
        ("split-cifar100", 10, 50, 32, (35, 45)),
        ("split-tinyimagenet", 20, 100, 64, (35, 60, 75)),
        ("split-imagenet100", 10, 65, 64, (15, 30, 40, 45)),
    ],
)
def test_the_protocols(
    preset: str, scenario: str, per_task: int, epochs: int, batch: int, milestones: tuple[int, ...]
) -> None:
    found = resolved({"scenario": scenario, "method": "er", "preset": preset})
    training = found["training"]
    assert found["scenario"]["per_task"] == per_task
    assert (training["epochs"], training["batch_size"]) == (epochs, batch)
    assert found["memory"]["replay_batch_size"] == batch
    assert training["schedule"]["milestones"] == milestones
    assert training["schedule"]["factor"] == 0.1
    assert training["lr"] == 0.1  # ER's everywhere
    warm = scenario == "split-imagenet100"
    assert training["schedule"]["warmup"] == (5 if warm else 0)
    assert training["weight_decay"] == (5e-4 if warm else 0)


# --- the key -------------------------------------------------------------------------------------

# What does not decide a number. Every other field is a part of the key.
EXEMPT = {
    "preset", "scenario.data", "compute.threads", "net.weights", "name", "tags",
    "scenario.data_name",
}  # fmt: skip


def fields(model: BaseModel, path: str = "") -> Iterator[str]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from fields(value, f"{path}{name}.")
        else:
            yield path + name


def changed(model: Any, path: str) -> Any:
    name, _, rest = path.partition(".")
    new = changed(getattr(model, name), rest) if rest else "another"
    return model.model_copy(update={name: new})


@pytest.mark.filterwarnings("ignore:Pydantic serializer")  # of values that are not of their type
def test_the_key_changes_with_every_field_but_those_that_change_no_number() -> None:
    base = resolve(config(BLOBS))
    assert set(fields(base)) > EXEMPT
    keys = {path: key(changed(base, path), "data") for path in fields(base)}
    assert {path for path, found in keys.items() if found == key(base, "data")} == EXEMPT
    assert len(set(keys.values())) == len(keys) - len(EXEMPT) + 1
    assert key(base, "other data") != key(base, "data")


def test_equal_data_elsewhere_is_the_same_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (40, 8, 8), dtype=np.uint8), np.arange(40) % 4
    keys = []
    for name, pixel in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / name).mkdir()
        here = x.copy()
        here[0, 0, 0] ^= pixel
        np.savez(tmp_path / name / "images.npz", x=here, y=y)
        path = str(tmp_path / name / "images.npz")
        settings = {"scenario": {"name": "arrays", "data": path, "per_task": 2}, "memory": 10}
        prepared = prepare(config(settings))
        assert str(tmp_path) not in prepared.name
        keys.append(prepared.name)
    assert keys[0] == keys[1] != keys[2]


def test_names_tell_runs_apart_at_a_glance() -> None:
    name = prepare(config(BLOBS | {"method": "er+bfp", "memory": 50, "seed": 7})).name
    assert name.startswith("blobs-er+bfp-m50-s7-")
    assert prepare(config(BLOBS | {"method": "ft"})).name.startswith("blobs-ft-s0-")


def test_key_and_streams_are_the_same_in_another_process() -> None:
    """Nothing is keyed by Python's salted hash or by the order of a set."""
    code = (
        "from linsep.prepare import prepare\n"
        "from linsep.settings.config import from_settings\n"
        "from linsep.randomness import Randomness\n"
        "print(prepare(from_settings({'scenario': 'blobs', 'method': 'er+bfp'})).name)\n"
        "print(Randomness(3).at('bfp/rows', 1, 2).bytes(8).hex())\n"
    )
    here = [
        prepare(config(BLOBS | {"method": "er+bfp"})).name,
        Randomness(3).at("bfp/rows", 1, 2).bytes(8).hex(),
    ]
    salted = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=250, env=salted
    )
    assert done.stdout.split() == here, done.stderr


# --- what is refused -----------------------------------------------------------------------------

NAN = float("nan")
# What is written, and what the one line must say: the field, what was found, what is allowed.
BAD: list[tuple[Settings, list[str]]] = [
    ({"method": "derp"}, ["method", "'derp'", "Did you mean 'derpp'?", "er"]),
    ({"method": "derpp+bfp+bfp"}, ["method", "'bfp'", "twice"]),
    ({"training": {"schedule": {"milestone": [3]}}}, ["training.schedule.milestone", "milestones"]),
    ({"training": {"epochs": 0}}, ["training.epochs", "0", "greater than or equal to 1"]),
    ({"training": {"lr": NAN}}, ["training.lr", "nan", "finite"]),
    ({"preset": "papers"}, ["preset", "'papers'", "'paper', 'authors' or 'fast'"]),
    ({"scenario": "blob"}, ["scenario.name", "'blob'", "Did you mean 'blobs'?", "fashion-mini"]),
    ({"scenario": {"name": "blobs", "per_task": 3}}, ["scenario.per_task", "10 classes", "of 3"]),
    (
        {"scenario": {"name": "blobs", "first_task": 5}},
        ["scenario.per_task", "10 classes", "5 and then", "of 2"],
    ),
    ({"scenario": {"name": "blobs", "data": "x"}}, ["scenario.data", "'blobs'", "leave it out"]),
    ({"scenario": {"name": "arrays", "per_task": 2}}, ["scenario.data", "missing", "'arrays'"]),
    ({"scenario": {"name": "blobs", "validation": 0.999}}, ["scenario.validation", "without"]),
    ({"net": {"name": "cnn", "widht": 3}}, ["net.widht", "Did you mean 'width'?"]),
    ({"memory": 9}, ["memory.size", "9", "10 classes", "at least 10"]),
    ({"memory": 0}, ["memory.size", "0", "at least 1"]),
    ({"method": "ft", "memory": 50}, ["memory", "'ft'", "no memory", "leave it out"]),
    ({"method": "er", "bfp": {"weight": 2}}, ["bfp", "not part of", "'er'"]),
    ({"method": "ft+bfp", "bfp": {"on": "replay"}}, ["bfp", "replay", "no memory"]),
    ({"bfp": 5}, ["bfp", "5", "table"]),
    ({"compute": {"device": "gpu"}}, ["compute.device", "'gpu'", "'cuda'"]),
    # Weight alignment only changes predictions, and the preset predicts by bare logits.
    ({"method": "derpp+wa", "preset": "authors"}, ["evaluation.rule", "'derpp+wa'", "=method"]),
    # A boolean is no number, a text is no number, a number is no boolean.
    ({"seed": True}, ["seed", "valid integer", "True"]),
    ({"training": {"schedule": {"milestones": [True]}}}, ["milestones", "True"]),
    ({"evaluation": {"mask_unseen": 1}}, ["evaluation.mask_unseen", "boolean", "1"]),
    # More than any machine has, or than a float32 holds.
    ({"memory": 10**12}, ["memory.size", "1000000000000", "less than or equal"]),
    ({"scenario": {"name": "blobs", "data": "\udcff"}}, ["scenario.data", "surrogates"]),
    ({"scenario": {"name": "blobs", "options": "x", "train": 4}}, ["scenario.options", "dict"]),
]


@pytest.mark.parametrize(
    ("given", "words"), BAD, ids=lambda v: str(v) if isinstance(v, dict) else ""
)
def test_mistakes_are_one_line(given: Settings, words: list[str]) -> None:
    with pytest.raises(LinsepError) as caught:
        prepare(config(BLOBS | given))
    line = str(caught.value)
    assert isinstance(caught.value, ConfigError)
    assert "\n" not in line
    assert all(word in line for word in words), line
    assert len(line) < 400


@pytest.mark.parametrize("layers", [["block9"], []])
def test_layers_that_are_not_there(layers: list[str]) -> None:
    with pytest.raises(ConfigError, match="layers"):
        prepare(config(BLOBS | {"bfp": {"layers": layers}})).build()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_absent_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"compute.device: 'cuda' .* only .*cpu") as caught:
        prepare(config(BLOBS | {"compute": {"device": "cuda"}}))
    assert "\n" not in str(caught.value)


def test_several_mistakes_are_counted() -> None:
    with pytest.raises(ConfigError, match=r"training.epochs: .*\(and 1 more\)"):
        config(BLOBS | {"training": {"epochs": 0, "lr": -1}})


def test_an_integer_may_stand_for_a_float_and_a_list_for_a_tuple() -> None:
    whole: Settings = {"training": {"lr": 1, "schedule": {"milestones": [1]}}, "bfp": {"weight": 2}}
    found = resolved(BLOBS | whole)
    assert type(found["training"]["lr"]) is float
    same = {"training": {"lr": 1.0, "schedule": {"milestones": (1,)}}, "bfp": {"weight": 2.0}}
    assert found == resolved(BLOBS | same)


def test_a_config_made_in_python_raises_our_error() -> None:
    with pytest.raises(ConfigError, match=r"^training\.epochs: should be .*, not 0$"):
        Config(training={"epochs": 0})
    with pytest.raises(ConfigError, match="Did you mean 'method'"):
        Config(metod="er")
    with pytest.raises(ConfigError, match=r"config: should be a linsep\.Config, not dict"):
        prepare({"method": "er"})  # type: ignore[arg-type]
    with pytest.raises(LinsepError, match=r"data: should be a linsep\.Dataset, not str"):
        prepare(Config(), data="photos")  # type: ignore[arg-type]


DEEP = "[" * 3000 + "]" * 3000


@pytest.mark.parametrize(
    "value", [DEEP, "[[[[[[[[[[[[1]]]]]]]]]]]]", "9" * 5000, "9" * 300, "0x" + "f" * 4000]
)
def test_values_too_deep_or_too_large_are_one_line(value: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(f"seed = {value}")
    with pytest.raises(ConfigError) as assigned:
        assignment(f"seed={value}")
    with pytest.raises(ConfigError) as from_file:
        read(tmp_path / "x.toml")
    assert len(str(assigned.value)) < 300
    assert len(str(from_file.value)) < 300
    (tmp_path / "x.toml").write_text(".".join("a" * 3000) + " = 1")
    with pytest.raises(ConfigError, match="nested too deeply"):
        read(tmp_path / "x.toml")
    with pytest.raises(ConfigError, match="should look like"):
        assignment(".".join("a" * 3000) + "=1")


# --- lenient, for grids --------------------------------------------------------------------------


def test_lenient_drops_what_does_not_concern_the_method() -> None:
    """One set of settings for many methods: each run is what it would be on its own."""
    shared: Settings = BLOBS | {
        "memory": {"size": 50, "replay_batch_size": 8},
        "bfp": {"weight": 2},
        "derpp": {"replay_ce": 1},
    }
    alone: dict[str, Settings] = {
        "ft": {},
        "ft+bfp": {"bfp": {"weight": 2}},
        "er": {"memory": {"size": 50, "replay_batch_size": 8}},
        "derpp": {"memory": {"size": 50, "replay_batch_size": 8}, "derpp": {"replay_ce": 1}},
    }
    for method, given in alone.items():
        loose = resolved(shared | {"method": method}, lenient=True)
        assert loose == resolved(BLOBS | given | {"method": method})
        with pytest.raises(ConfigError):
            resolved(shared | {"method": method})


PROTOCOLS = [
    (preset, path)
    for preset, values in PRESETS.items()
    for path in flat({name: v for name, v in values.items() if name != "options"})
]


@pytest.mark.parametrize(("preset", "path"), PROTOCOLS)
def test_what_the_user_states_is_what_runs_whatever_the_preset(preset: str, path: str) -> None:
    """Also where it is the default, and a grid over such values has as many runs as values."""
    section, field = path.split(".")
    kind = type(Config.model_fields[section].default).model_fields[field]
    values = [v for v in get_args(kind.annotation) or (True, False) if isinstance(v, str | bool)]
    keys = set()
    for value in values:
        stated = {**BLOBS, "method": "derpp+bfp", "preset": preset, section: {field: value}}
        whole = resolve(config(stated))
        assert getattr(getattr(whole, section), field) == value
        keys.add(key(whole, "data"))
    assert len(keys) == len(values) >= 2
