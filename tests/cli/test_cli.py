"""The command line as a person meets it."""

import importlib
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

import linsep
from linsep import optional
from linsep.cli import explained
from linsep.errors import ConfigError
from linsep.optional import EXTRAS
from tests.helpers.command import TINY, command

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which one run was made, and what was said."""
    where = tmp_path_factory.mktemp("cli")
    done = command(*TINY, cwd=where)
    assert done.returncode == 0, done.stderr
    return where, done.stdout


def test_a_run_says_what_it_does_and_where_things_are(finished: tuple[Path, str]) -> None:
    where, said = finished
    (folder,) = (where / "runs").iterdir()
    assert "after task 5: Class-IL" in said
    assert "FAA" in said
    assert f"Everything is in runs/{folder.name}" in said
    for term in ("ce", "replay_ce", "replay_logits", "bfp"):
        assert f" {term} " in said


def test_the_second_time_it_is_finished_already(finished: tuple[Path, str]) -> None:
    where, said = finished
    again = command(*TINY, cwd=where)
    assert "is finished already" in again.stdout
    assert again.stdout.splitlines()[-4:] == said.splitlines()[-4:]


def test_quiet_says_only_the_result_and_names_are_no_markup(tmp_path: Path) -> None:
    done = command(*TINY, "--quiet", "--runs", "a[/b] [bold]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "after task" not in done.stdout
    assert "FAA" in done.stdout
    assert "Everything is in a[/b] [bold]/blobs" in done.stdout


def test_show_and_list(finished: tuple[Path, str]) -> None:
    where, _ = finished
    (folder,) = (where / "runs").glob("*-s0-*")
    shown = command("show", folder.name, cwd=where).stdout
    order = ("FAA", "Class-IL accuracy, %", "Settings:", 'method = "derpp+bfp"')
    assert sorted(order, key=shown.index) == list(order), "results come before settings"
    listed = command("list", cwd=where).stdout
    for name in ("derpp", "+bfp", "fashion-mini", "resnet18", "'linsep[timm]'"):
        assert name in listed


WRONG = {
    "a method": (["run", "--method", "derp"], "Did you mean 'derpp'?"),
    "a file": (["run", "nothing.toml"], "nothing.toml: No such file"),
    "a run": (["show", "nothing"], "nothing is not a run"),
    "a kind": (["list", "metods"], "Did you mean 'methods'?"),
    "superscripts": (["grid", "--over", "seed=0..²"], "seed"),
    "a long folder": ([*TINY, "--runs", "x" * 300], "File name too long"),
    "an odd place": ([*TINY, "--runs", "/proc/runs"], "/proc/runs"),
    "no UTF-8": (["run", "--set", "method=\udcff"], "method"),
    "an escape": (["show", "\x1b[31mred"], r"\x1b[31mred is not a run"),
    "a huge grid": (["grid", "--over", "seed=0..99999999999"], "1 to 100000 values"),
    "a huge product": (
        ["grid", "--over", "seed=0..9999", "--over", "scenario.order_seed=0..9999"],
        "100000000 combinations; a grid has at most 100000",
    ),
    "a kind to keep": ([*TINY, "--keep", "task"], "--keep: unknown kind 'task'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_one_line_and_exit_code_2(what: str, tmp_path: Path) -> None:
    words, expected = WRONG[what]
    result = command(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert expected in result.stderr
    assert len(result.stderr) < 600
    assert not (tmp_path / "runs").exists()


def test_errors_that_are_not_ours_are_explained() -> None:
    missing = ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib.pyplot")
    assert explained(missing) == "matplotlib is not installed: pip install 'linsep[plot]'"
    full = OSError(28, "No space left on device", "runs/x")
    assert explained(full) == "runs/x: No space left on device"
    assert "out of memory" in str(
        explained(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    )
    assert explained(ValueError("a mistake of ours")) is None
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(known)


@pytest.mark.parametrize("moment", [0.05, 0.3])
def test_ctrl_c_in_the_first_second_prints_no_traceback(moment: float, tmp_path: Path) -> None:
    # A shell's background jobs ignore Ctrl-C, and so would their children.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = listening + "from linsep.cli import main; print(flush=True); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *TINY],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (1, 130)
    assert "Traceback" not in said


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        command("run", "--method", "derp", "--debug", cwd=tmp_path)


def test_help_lists_and_imports_stay_light() -> None:
    """torch takes seconds to import, so neither may."""
    listing = "from linsep.cli import app; app(['list'], standalone_mode=False)"
    for program in ("import linsep, linsep.cli", "import linsep; linsep.Config", listing):
        check = f"{program}; import sys; sys.exit('torch' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False)
        assert done.returncode == 0, program
    assert set(linsep.__all__) <= set(dir(linsep)) | set(linsep._HOMES)


def test_a_signal_finishes_the_step_saves_and_tells_how_to_resume(tmp_path: Path) -> None:
    program = "import sys; from linsep.cli import main; sys.argv[0] = 'linsep'; main()"
    longer = ["200" if word == "1" else word for word in TINY]  # epochs
    process = subprocess.Popen(
        [sys.executable, "-c", program, *longer],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "epoch 2/" in line:
            break
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Repeat the command to resume" in said
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "state.safetensors").exists()
    assert not (folder / "results.json").exists()
    shown = command("show", folder.name, cwd=tmp_path)
    assert "Not finished" in shown.stdout


# The package that is missing, the words that need it, and the extra that has it.
NEEDING = [
    ("optuna", ("search", "--scenario", "blobs", "--over-range", "lr=0.1..1"), "search"),
    ("matplotlib", ("report",), "plot"),
    ("ray", ("grid", "--scenario", "split-cifar10", "--over", "seed=0,1", "--on", "ray"), "ray"),
    ("submitit", ("grid", "--over", "seed=0,1", "--on", "slurm"), "slurm"),
    ("wandb", ("run", "--scenario", "split-cifar10", "--log", "wandb"), "wandb"),
]


@pytest.mark.parametrize(("package", "words", "extra"), NEEDING, ids=lambda value: str(value)[:20])
def test_a_missing_extra_is_named_before_any_work(
    package: str,
    words: tuple[str, ...],
    extra: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without(module: str) -> Any:
        if module.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return importlib.import_module(module)

    monkeypatch.setattr(optional, "import_module", without)
    said = command(*words, cwd=tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.endswith(f"needs {package}: pip install 'linsep[{extra}]'\n")
    assert said.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
