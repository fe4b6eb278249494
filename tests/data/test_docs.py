"""What docs/your-data.md shows, run."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linsep.cli import app
from tests.helpers.made_data import write_image

PAGE = Path(__file__).parents[2] / "docs" / "your-data.md"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
PYTHON = [code for kind, code in BLOCKS if kind == "python"]
QUICK = "--net cnn --epochs 1 --memory 10 --quiet --threads 1 --device cpu".split()  # noqa: SIM905


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LINSEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_python_blocks_run(code: str) -> None:
    exec(compile(code, str(PAGE), "exec"), {})


def command(start: str) -> list[str]:
    found = [line for _, code in BLOCKS for line in code.splitlines() if line.startswith(start)]
    assert len(found) == 1
    return found[0].split()[1:]


def run(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_folder_and_table_commands_run(tmp_path: Path) -> None:
    lines = ["file,label,task,split"]
    for i in range(24):
        part, kind = ("test" if i % 3 == 0 else "train"), ("cat", "dog")[i % 2]
        write_image(tmp_path / "photos" / part / kind / f"{i}.png", i, (20, 16))
        lines.append(f"photos/{part}/{kind}/{i}.png,{kind},{i // 12},{part}")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    for scenario in ("folder", "table"):
        words = command(f"linsep run --scenario {scenario}")
        run([*(word.replace("size=64", "size=16") for word in words), *QUICK])
