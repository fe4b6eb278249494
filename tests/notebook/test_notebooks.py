"""The notebooks in notebooks/: small, without outputs, and every cell works; and their pages."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers import scripts

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LARGEST = 20_000  # bytes


@pytest.fixture(scope="module")
def script() -> ModuleType:
    for package in ("ipykernel", "nbclient", "nbconvert"):
        pytest.importorskip(package, reason=f"{package} is not installed: linsep[docs]")
    return scripts.loaded("scripts/notebooks.py")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_small_and_has_no_outputs(path: Path) -> None:
    content = path.read_text("utf-8")
    assert len(content.encode()) < LARGEST
    found = json.loads(content)
    assert found["nbformat"] == 4
    for cell in found["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            assert cell["execution_count"] is None
            compile("".join(cell["source"]), str(path), "exec")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's about itself
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_works(path: Path, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = script.executed(path)
    said = "".join(out.get("text", "") for cell in found.cells for out in cell.get("outputs", ()))
    assert said
