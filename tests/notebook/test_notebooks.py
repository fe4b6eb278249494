"""The notebooks in notebooks/: small, without outputs, and every cell works; and their pages."""

import base64
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers import scripts

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LARGEST = 20_000  # bytes
PIXEL = base64.b64encode(b"\x89PNG and so on").decode()


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


@pytest.mark.filterwarnings("ignore")  # of Jupyter's about itself
def test_a_page_has_the_outputs_and_links_that_lead_on(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbformat
    from nbformat import v4

    given = v4.new_notebook(
        cells=[v4.new_markdown_cell("# One\n[on](../docs/x.md)"), v4.new_code_cell("f()")],
        metadata={"language_info": {"name": "python"}},
    )
    path = tmp_path / "one.ipynb"
    nbformat.write(given, path)
    done = tmp_path / "done"
    done.mkdir()
    given.cells[1].outputs = [
        v4.new_output("stream", text="said\n"),
        v4.new_output("display_data", {"text/html": "<table><tr><td>7</td></tr></table>"}),
        v4.new_output("display_data", {"image/png": PIXEL}),
    ]
    nbformat.write(given, done / "one.ipynb")
    monkeypatch.setattr(script, "NOTEBOOKS", [path])
    monkeypatch.setattr(script, "EXECUTED", done)
    monkeypatch.setattr(script, "PAGES", {"notebooks/one.ipynb": "docs/tutorials/one.md"})

    def relinked(text: str, written: str, shown: str) -> str:
        assert (written, shown) == ("notebooks/one.ipynb", "docs/tutorials/one.md")
        return text.replace("../docs/x.md", "../x.md")

    pages = dict(script.pages(relinked))
    picture = "docs/tutorials/one_1_2.png"
    assert pages.keys() == {"docs/tutorials/one.md", picture}
    assert pages[picture] == base64.b64decode(PIXEL)
    text = pages["docs/tutorials/one.md"]
    for part in ("[on](../x.md)", "```python\nf()\n```", "    said", "<td>7</td>", "(one_1_2.png)"):
        assert part in text, part

    given.cells[1].source = "g()"  # executed before it was changed
    nbformat.write(given, done / "one.ipynb")
    (page,) = script.pages(relinked)
    assert "f()" in page[1]
    assert "said" not in page[1]
