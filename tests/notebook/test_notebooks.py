"""The notebooks in notebooks/: small, without outputs, and every cell works."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LARGEST = 20_000  # bytes


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
def test_every_cell_works(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipykernel")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = nbformat.read(path, as_version=4)
    nbformat.validate(found)
    nbclient.NotebookClient(
        found, timeout=280, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    said = "".join(out.get("text", "") for cell in found.cells for out in cell.get("outputs", ()))
    assert said
