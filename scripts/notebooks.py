"""Execute the notebooks, and make pages of the site of them.

    python scripts/notebooks.py [--at-once 2]

Writes executed copies into build/notebooks/ and fails with the first cell that does. Those in git
have no outputs; the site shows the executed copy of a notebook, unless the notebook has changed
since: then it is shown without outputs. scripts/site.py calls `pages`.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).parent.parent
EXECUTED = ROOT / "build" / "notebooks"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Where each is shown, as paths of the repository.
PAGES = {f"notebooks/{path.name}": f"docs/tutorials/{path.stem}.md" for path in NOTEBOOKS}
PATIENCE = 600  # seconds for one cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=2, help="how many to execute at a time")
    asked = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1"}  # of the kernels
    EXECUTED.mkdir(parents=True, exist_ok=True)

    def write(path: Path) -> str:
        begun = time.monotonic()
        nbformat.write(executed(path), EXECUTED / path.name)
        return f"{path.name}: every cell works ({time.monotonic() - begun:.0f} s)"

    with ThreadPoolExecutor(asked.at_once) as pool:
        for told in pool.map(write, NOTEBOOKS):
            print(told, flush=True)


def executed(path: Path) -> NotebookNode:
    """The notebook with its outputs, after a run in an empty folder."""
    from nbclient import NotebookClient

    found = nbformat.read(path, as_version=4)
    nbformat.validate(found)
    with tempfile.TemporaryDirectory() as empty:
        at = {"metadata": {"path": empty}}
        NotebookClient(
            found, timeout=PATIENCE, kernel_name="python3", resources=at, coalesce_streams=True
        ).execute()
    return found


def pages(relinked: Callable[[str, str, str], str]) -> Iterator[tuple[str, str | bytes]]:
    """The path of each page and of each picture on it, with its content.

    `relinked` takes a text, where it was written and where it is shown.
    """
    from nbconvert import MarkdownExporter

    for path in NOTEBOOKS:
        written = f"notebooks/{path.name}"
        page = PAGES[written]
        found = newest(path)
        for cell in found.cells:
            if cell.cell_type == "markdown":
                cell.source = relinked(cell.source, written, page)
        text, made = MarkdownExporter().from_notebook_node(found, {"unique_key": path.stem})
        yield page, text.replace("![png]", "![What the cell draws]")
        for name, content in made["outputs"].items():
            yield str(Path(page).with_name(name)), content


def newest(path: Path) -> NotebookNode:
    """The executed copy, if it is one of this notebook as it is now; else the notebook itself."""
    found = nbformat.read(path, as_version=4)
    if (EXECUTED / path.name).exists():
        copy = nbformat.read(EXECUTED / path.name, as_version=4)
        if [cell.source for cell in copy.cells] == [cell.source for cell in found.cells]:
            return copy
    return found


if __name__ == "__main__":
    main()
