"""Run the quick tests with the oldest version of every dependency that pyproject.toml allows.

    python scripts/test_versions.py [--python python3.12] [--torch 2.13.0] [--newest] [TESTS ...]

Makes an environment of its own and removes it afterwards. `--torch` picks a version of torch, where
the oldest one cannot be had; `--newest` takes the newest versions of everything else instead;
TESTS are files or folders of tests, where not all are wanted.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?>=([0-9][\w.]*)")


def oldest() -> dict[str, str]:
    """The lower bounds of what linsep itself needs, by package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = (BOUND.fullmatch(one) for one in project["dependencies"])
    return {match[1]: match[2] for match in found if match}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the Python to test with")
    parser.add_argument("--torch", help="the version of torch to test with")
    parser.add_argument("--newest", action="store_true", help="the newest versions")
    parser.add_argument("tests", nargs="*", help="files or folders of tests; default: all")
    asked = parser.parse_args()
    pins = {} if asked.newest else oldest()
    if asked.torch:
        pins["torch"] = asked.torch
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        pinned = place / "pinned.txt"
        pinned.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
        print(pinned.read_text(), end="", flush=True)
        subprocess.run([asked.python, "-m", "venv", str(place / "env")], check=True)
        python = str(place / "env" / "bin" / "python")
        install = [python, "-m", "pip", "install", "-q", "-c", str(pinned), "-e", ".[dev]"]
        subprocess.run(install, cwd=ROOT, check=True)
        quick = [python, "-m", "pytest", "-q", "-n", "auto", "-m", "not slow and not data"]
        quick += asked.tests
        sys.exit(subprocess.run(quick, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
