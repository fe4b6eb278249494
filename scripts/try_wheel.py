"""Install the wheel in dist/ into an empty environment and use it, as a stranger would.

    python scripts/try_wheel.py [--torch 2.13.0]

`--torch` picks a version of torch, where the newest one is not wanted; nothing else is pinned.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
TINY = ["--scenario", "blobs", "--epochs", "1", "--memory", "20", "--quiet"]
SMALL = ["--over", "method=ft", "--over", "seed=0", "--epochs", "1", "--per-class", "10"]
MAKE_PHOTOS = """
from pathlib import Path
from PIL import Image
for month, names in {"january": ("red", "green"), "february": ("blue", "white")}.items():
    for name in names:
        folder = Path("photos", month, name)
        folder.mkdir(parents=True)
        for i in range(8):
            Image.new("RGB", (16, 16), name).save(folder / f"{i}.png")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", help="the version of torch to install")
    wanted = parser.parse_args().torch
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        venv.create(place / "env", with_pip=True)
        programs = place / "env" / "bin"
        torch = [f"torch=={wanted}"] if wanted else []
        _run([programs / "python", "-m", "pip", "install", "-q", f"{wheel}[plot]", *torch], place)
        linsep = programs / "linsep"
        work = place / "empty"
        work.mkdir()
        _run([linsep, "--version"], work)
        _run([linsep, "run", "--method", "er+bfp", *TINY], work)
        _run([linsep, "run", "--method", "er", *TINY], work)
        _run([linsep, "grid", "fashion-mini", *SMALL], work)
        _run([linsep, "compare"], work)
        _run([linsep, "report", "-o", "report.html"], work)
        _run([programs / "python", "-c", MAKE_PHOTOS], work)
        for month in ("january", "february"):
            _run([linsep, "learn", "shop", f"photos/{month}", "--epochs", "1"], work)
        _run([linsep, "predict", "shop", "photos/february"], work)
        assert (work / "report.html").stat().st_size > 10_000
    print(f"{wheel.name} works in an empty environment.")


def _run(command: list[str | Path], where: Path) -> None:
    quiet = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=where, env=quiet, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
