"""A user's own methods, terms, nets and scenarios: treated as ours, and never run unasked."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import linsep
from linsep import custom, testing
from linsep.analysis.features import reopen
from linsep.errors import ConfigError, StateError
from linsep.grids.grid import Grid
from linsep.grids.plan import plan
from linsep.prepare import Prepared, prepare
from linsep.resolve import resolve
from linsep.settings.config import Config, from_settings
from linsep.storage.session import Session
from tests.helpers.command import command
from tests.helpers.own_parts import SOURCE, write
from tests.helpers.real_runs import contents

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 20, "test": 5},
    "memory": 8,
    "training": {"epochs": 2, "batch_size": 10},
}
TINY = (
    "run", "--scenario", "blobs", "--memory", "8", "--epochs", "1", "-q",
    "--set", "scenario.classes=4", "--set", "scenario.train=20", "--set", "scenario.test=5",
)  # fmt: skip


def prepared(path: Path, method: str = "er_kd+bfp", **more: Any) -> Prepared:
    return prepare(from_settings(PROTOCOLS | {"method": f"{path}:{method}"} | more))


def trained(made: Prepared, runs: Path, stop: int | None = None) -> Path:
    with Session(made, runs) as session:
        for number, _ in enumerate(session):
            if number == stop:
                session.save()
                break
    return session.folder


# --- they are what ours are ----------------------------------------------------------------------


def test_a_copy_of_er_in_a_users_file_is_er(tmp_path: Path) -> None:
    theirs = prepared(write(tmp_path), "twin+bfp", twin={"replay_ce": 0.7})
    ours = prepare(from_settings(PROTOCOLS | {"method": "er+bfp", "er": {"replay_ce": 0.7}}))
    a, b = trained(theirs, tmp_path / "runs"), trained(ours, tmp_path / "runs")
    assert a.name.startswith("blobs-twin+bfp-m8-s0-")
    for name in ("events.jsonl", "model.safetensors"):
        assert (a / name).read_bytes() == (b / name).read_bytes()


def test_the_laws_hold_for_a_net_from_a_file(tmp_path: Path) -> None:
    testing.check_net(custom.load(f"{write(tmp_path)}:make", "").make, shape=(1, 8, 8))


def test_parts_and_options_by_name(tmp_path: Path) -> None:
    path = write(tmp_path)
    settings = PROTOCOLS | {
        "method": f"{path}:er_kd+{path}:kd+bfp", "er_kd": {"distillation": 2}, "kd": {"weight": 3},
        "net": {"name": f"{path}:make", "width": 6}, "bfp": {"layers": ["2", "features"]},
    }  # fmt: skip
    config = resolve(from_settings(settings))
    assert (config.method, config.net.name) == ("er_kd+kd+bfp", "make")
    assert config.options["er_kd"] == {"distillation": 2.0}
    assert {name: part.source for name, part in config.custom.items()} == {
        name: f"{path}:{name}" for name in ("er_kd", "kd", "make")
    }
    run = prepare(config).build()
    assert run.learner.net.backbone.widths == {"2": 6, "features": 6}
    weights = {s.name: s.weight for s in run.learner.method.weighted_terms}
    assert (weights["distillation"], weights["kd"]) == (2.0, 3.0)


def test_the_key_is_of_the_content_and_not_of_the_place(tmp_path: Path) -> None:
    here = prepared(write(tmp_path / "a"))
    assert prepared(write(tmp_path / "b")).name == here.name
    assert prepared(write(tmp_path / "c", SOURCE + "# another\n")).key != here.key
    assert str(tmp_path) not in here.name


@pytest.mark.parametrize(
    "line",
    [
        "import helper.losses\nW = helper.losses.W",
        "from helper import losses\nW = losses.W",
        "from helper import W",  # through its __init__
    ],
)
def test_modules_of_a_package_beside_it_count(line: str, tmp_path: Path) -> None:
    name = f"helper_{len(line)}"  # one of its own: imported modules stay for the process
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("from .losses import W\n")
    (package / "losses.py").write_text("from .numbers import HALF\nW = HALF\n")
    digests = set()
    for value in (0.5, 0.25):
        (package / "numbers.py").write_text(f"HALF = {value}\n")
        start = line.replace("helper", name)
        path = write(tmp_path, f"{start}\n{SOURCE.replace('float = 0.5', 'float = W')}")
        found = prepared(path)
        assert found.config.options["er_kd"] == {"distillation": value}
        digests.add(found.config.custom["er_kd"].digest)
    assert len(digests) == 2


def defined(source: str) -> Any:
    """What a source typed into a notebook defines."""
    names: dict[str, Any] = {"__name__": "__main__", "nn": nn, "torch": torch}
    exec(source, names)
    return names


NET = """
def helper(x):
    return torch.relu(x) * FACTOR

FACTOR = 1.0

class Body(nn.Module):
    def __init__(self, power=1.0):
        super().__init__()
        self.flat, self.linear, self.power = nn.Flatten(), nn.Linear(64, 7), power
        nn.init.ones_(self.linear.weight), nn.init.zeros_(self.linear.bias)

    def forward(self, x):
        return helper(self.linear(self.flat(x))) + 0.0
"""


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("+ 0.0", "+ 0.5"),  # its forward
        ("torch.relu", "torch.tanh"),  # a function that this calls
        ("FACTOR = 1.0", "FACTOR = 2.0"),  # a number that this reads
        ("power=1.0", "power=2.0"),  # what an instance holds
        ("+ 0.0", "+ 0.0  # a comment"),
    ],
)
def test_a_module_that_was_edited_is_another_run(was: str, becomes: str) -> None:
    """Layers and weights are the same in all of them, and the code is not, but for comments."""
    keys = [
        prepare(Config(**PROTOCOLS), net=defined(text)["Body"]()).key
        for text in (NET, NET, NET.replace(was, becomes))
    ]
    assert keys[0] == keys[1]
    assert (keys[1] == keys[2]) == ("comment" in becomes)


def test_a_resolved_config_can_be_written_and_resolved_again(tmp_path: Path) -> None:
    folder = trained(prepared(write(tmp_path)), tmp_path / "runs")
    again = command("run", str(folder / "config.toml"), "--runs", "runs", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert f"{folder.name} is finished already" in again.stdout


# --- handed over in Python -----------------------------------------------------------------------


def test_functions_modules_and_methods_in_python(tmp_path: Path) -> None:
    path = write(tmp_path)
    module = custom._executed(path)[0]
    by_name = prepared(path)
    assert prepare(Config(method=[module.er_kd, "bfp"], **PROTOCOLS)).key == by_name.key
    run = linsep.build(
        Config(net={"name": module.make, "width": 5}, **PROTOCOLS), method=module.twin
    )
    assert run.learner.net.backbone.widths["features"] == 6
    assert len(list(run)) == len(list(linsep.build(Config(method="er", **PROTOCOLS))))
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 7))
    assert linsep.build(Config(net=body, **PROTOCOLS)).learner.spec.features == 7
    by_class = Config(net={"name": Flat, "width": 5}, **PROTOCOLS)
    assert linsep.build(by_class).learner.spec.features == 5


class Flat(nn.Module):
    """A net that is a class of the user's."""

    def __init__(self, shape: tuple[int, int, int], *, width: int = 3) -> None:
        super().__init__()
        self.linear = nn.Linear(shape[0] * shape[1] * shape[2], width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.flatten(1))


def test_a_method_without_a_source_can_be_built_but_not_kept(tmp_path: Path) -> None:
    module = custom._executed(write(tmp_path))[0]
    made = prepare(Config(method=module.er_kd(distillation=3.0), **PROTOCOLS))
    assert len(list(made.build())) > 1
    with pytest.raises(ConfigError, match="its source cannot be found"):
        trained(made, tmp_path / "runs")
    typed: dict[str, Any] = {"er": module.twin}
    exec("def typed_in():\n    return er()\n", typed)
    with pytest.raises(ConfigError, match="typed_in: its source cannot be found"):
        trained(prepare(Config(method=typed["typed_in"], **PROTOCOLS)), tmp_path / "runs")


def test_a_function_of_ours_is_known_by_its_name() -> None:
    from linsep.methods.replay import derpp

    assert Config(method=[derpp, "bfp"]) == Config(method="derpp+bfp")


# --- resume, grids -------------------------------------------------------------------------------


def test_a_changed_source_is_refused_on_resume_and_a_restored_one_resumes(tmp_path: Path) -> None:
    path, runs = write(tmp_path), tmp_path / "runs"
    half = trained(prepared(path), runs, stop=5)
    write(tmp_path, SOURCE + "# changed\n")
    with pytest.raises(StateError, match=r"mine\.py:er_kd was changed since .* restore the file"):
        trained(prepared(path), runs)
    assert [folder.name for folder in runs.glob("blobs*")] == [half.name]
    write(tmp_path)
    assert contents(trained(prepared(path), runs)) == contents(
        trained(prepared(path), tmp_path / "straight")
    )
    write(tmp_path, SOURCE + "# changed\n")  # what is finished stands in nobody's way
    assert trained(prepared(path), runs).name != half.name


def test_a_grid_runs_them_in_its_workers_wherever_those_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    grid = PROTOCOLS | {
        "net": {"name": "mine.py:make"}, "er_kd": {"distillation": 2.0},
        "over": {"method": ["er", "mine.py:er_kd", "mine.py:er_kd+bfp"]},
    }  # fmt: skip
    cells = plan(grid, tmp_path / "runs")
    monkeypatch.chdir("/")  # where the workers then are
    for _ in Grid(cells, tmp_path / "runs", workers=1):
        pass
    assert [cell.status for cell in cells] == ["done"] * 3, [cell.reason for cell in cells]
    for cell in cells:
        alone = prepare(from_settings(cell.settings), lenient=True)
        assert contents(cell.folder) == contents(trained(alone, tmp_path / "alone"))


# --- nothing is executed unasked -----------------------------------------------------------------


TRAP = "from pathlib import Path\nPath(__file__).with_name('executed').touch()\n" + SOURCE


def test_looking_at_a_foreign_run_executes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "theirs", TRAP)
    trained(prepared(path, net={"name": f"{path}:make"}), tmp_path / "runs")
    mark = path.with_name("executed")
    assert mark.exists()
    for module in [name for name in sys.modules if name.startswith(custom.PREFIX)]:
        del sys.modules[module]
    (folder,) = (tmp_path / "runs").glob("blobs-*")
    config = (folder / "config.toml").read_text()
    looks = ("report", "-o", "page.html"), ("compare",), ("runs",), ("show", folder.name)
    for method, commands in {"er_kd+bfp": looks, f"{path}:er_kd": looks[1:]}.items():
        mark.unlink(missing_ok=True)  # the second is how no run of ours says it
        (folder / "config.toml").write_text(config.replace("er_kd+bfp", method, 1))
        for words in commands:
            done = command(*words, cwd=tmp_path)
            assert done.returncode == 0, (words, done.stderr)
        analysed = command("analyse", folder.name, cwd=tmp_path)
        assert analysed.returncode == 2
        assert "not executed without your consent; name the file with --custom" in analysed.stderr
        assert not mark.exists()


def test_a_run_can_be_analysed_with_the_file_that_is_trusted(tmp_path: Path) -> None:
    path = write(tmp_path)
    folder = trained(prepared(path), tmp_path / "runs")
    moved = write(tmp_path / "moved")
    path.unlink()
    assert reopen(folder, custom=[str(moved)]).name == folder.name
    write(tmp_path / "moved", SOURCE + "# changed\n")
    with pytest.raises(ConfigError, match="was changed"):
        reopen(folder, custom=[str(moved)])


# --- mistakes are one line -----------------------------------------------------------------------


RAISES = '        raise KeyError("in a step")'


def line(text: str) -> int:
    return SOURCE.splitlines().index(text) + 1


MISTAKES = {
    "mine.py:er_kdd": "mine.py has no function 'er_kdd'. Did you mean one of er_kd, twin",
    "mine.py:not_a_method": "mine.py:not_a_method should return a Method, not 1",
    "er+mine.py:er_kd": "mine.py:er_kd should return an add-on",
    "mine.py:fails": f"mine.py:fails failed: line {line('    return x / 0')}: ZeroDivisionError",
    "mine.py:unstarred": "options follow a star: def unstarred(*, ",
    "mine.py:bfp": "linsep has its own 'bfp'; rename yours",
    "mine.py:er_kd+mine.py:er_kd": "names the add-on 'er_kd' twice",
    "none.py:x": "none.py cannot be imported: there is no such file",
    "broken.py:x": "broken.py cannot be imported: line 2: SyntaxError",
    "mine.py:breaks": f"mine.py, line {line(RAISES)}: KeyError: 'in a step' (--debug shows",
}


@pytest.mark.parametrize("method", MISTAKES)
def test_mistakes_are_one_line(method: str, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "broken.py").write_text("x = 1\ndef y(:\n")
    done = command(*TINY, "--method", method, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert MISTAKES[method] in done.stderr


NETS = {
    "mine.py:er_kd": "should look like def er_kd(shape, *, width: int = 16)",
    "mine.py:maker": "has no function 'maker'",
    "shapes.py:number": "shapes.py:number should return an nn.Module, not int",
    "shapes.py:broken": "net: Linear cannot read images of 1x8x8 (mat1 and mat2",
    "shapes.py:cnn": "linsep has its own 'cnn'; rename yours",
}


@pytest.mark.parametrize("net", NETS)
def test_mistakes_in_a_net_are_one_line(net: str, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "shapes.py").write_text(
        "from torch import nn\ndef number(shape): return 3\ndef broken(shape): "
        "return nn.Linear(3, 3)\ndef cnn(shape): return nn.Flatten()\n"
    )
    done = command(*TINY, "--method", "er", "--net", net, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert NETS[net] in done.stderr


# --- what packages offer -------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed package `acme` 1.2 with one part of each kind."""
    site = tmp_path / "site"
    (site / "acme_cl-1.2.dist-info").mkdir(parents=True)
    info = site / "acme_cl-1.2.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-cl\nVersion: 1.2\n")
    points = {"methods": "er_kd", "addons": "kd", "nets": "make", "scenarios": "stripes"}
    lines = [f"[linsep.{group}]\n{name} = acme_cl:{name}\n" for group, name in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    stripes = (
        "def stripes(*, rows: int = 30):\n    import numpy as np\n    import linsep\n"
        "    y = np.arange(rows) % 3\n    x = np.zeros((rows, 8, 8), np.uint8)\n"
        "    x[np.arange(rows), y] = 255\n    x[:, 7, 0] = np.arange(rows)\n"
        "    return linsep.from_arrays(x, y)\n"
    )
    (site / "acme_cl.py").write_text(SOURCE + stripes)
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    return "acme-cl 1.2"


def test_parts_that_a_package_offers(package: str, tmp_path: Path) -> None:
    settings = PROTOCOLS | {
        "scenario": {"name": "stripes", "per_task": 1, "rows": 60}, "method": "er_kd+kd+bfp",
        "net": "make", "kd": {"weight": 2.0},
    }  # fmt: skip
    made = prepare(from_settings(settings))
    assert {part.source for part in made.config.custom.values()} == {
        f"{package}: acme_cl:{name}" for name in ("er_kd", "kd", "make")
    }
    folder = trained(made, tmp_path / "runs")
    assert len(json.loads((folder / "results.json").read_text())["groups"]) == 3
    assert reopen(folder).name == folder.name  # it was installed for this
    listed = command("list", cwd=tmp_path).stdout
    rows = [line.replace(" - ", " ").rstrip(" -").split() for line in listed.splitlines()]
    assert [row for row in rows if "acme-cl" in row] == [
        [name, "of", "acme-cl", "1.2"] for name in ("er_kd", "+kd", "stripes", "make")
    ]
    sys.modules.pop("acme_cl")


def test_another_version_of_a_package_is_another_run(package: str, tmp_path: Path) -> None:
    settings = PROTOCOLS | {"method": "er_kd"}
    before = prepare(from_settings(settings))
    info = tmp_path / "site" / "acme_cl-1.2.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-cl\nVersion: 1.3\n")
    importlib.invalidate_caches()
    after = prepare(from_settings(settings))
    assert after.key != before.key
    with pytest.raises(ConfigError, match="was changed since"):
        resolve(before.config)
    sys.modules.pop("acme_cl")


def test_a_package_that_is_gone_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolve(from_settings(PROTOCOLS | {"method": "er_kd"}))
    monkeypatch.setattr(custom, "offered", lambda group: {})
    with pytest.raises(ConfigError, match=r"a part of acme-cl 1\.2, which is not installed"):
        resolve(config)
    sys.modules.pop("acme_cl")


def test_a_worker_refuses_a_file_that_changed_after_the_plan(tmp_path: Path) -> None:
    path = write(tmp_path)
    cells = plan(PROTOCOLS | {"method": f"{path}:er_kd"}, tmp_path / "runs")
    write(tmp_path, SOURCE + "# changed\n")
    for _ in Grid(cells, tmp_path / "runs", workers=1):
        pass
    assert cells[0].status == "failed"
    assert "mine.py:er_kd was changed since this run was planned" in cells[0].reason
    assert not cells[0].folder.exists()


def test_a_loaded_run_predicts_with_the_file_that_is_trusted(tmp_path: Path) -> None:
    path = write(tmp_path)
    folder = trained(prepared(path), tmp_path / "runs")
    assert linsep.load(folder).metrics["class_il"]["faa"] is not None
    with pytest.raises(ConfigError, match="custom"):
        _ = linsep.load(folder).net
    assert not linsep.load(folder, custom=[str(path)]).net.training


def test_the_laws_find_a_net_that_is_not_deterministic() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x.flatten(1)) + torch.randn(4)

    with pytest.raises(AssertionError, match="global generator"):
        testing.check_net(Noisy(), shape=(1, 8, 8))
