"""A command that needs an extra says so in one line, in its help and before doing any work."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from linsep import optional
from tests.helpers.command import command

# The package that is missing, the words that need it, and the extra that has it.
NEEDING = [
    ("optuna", ("search", "--scenario", "blobs", "--over-range", "lr=0.1..1"), "search"),
    ("matplotlib", ("report",), "plot"),
    ("matplotlib", ("figures",), "plot"),
    ("ray", ("grid", "--scenario", "split-cifar10", "--over", "seed=0,1", "--on", "ray"), "ray"),
    ("submitit", ("grid", "--over", "seed=0,1", "--on", "slurm"), "slurm"),
    ("submitit", ("paper", "run", "table1", "--on", "slurm"), "slurm"),
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
