"""A model that names a file of somebody's: nothing of it is executed unless the user says so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from linsep import IncrementalClassifier
from tests.helpers.command import command
from tests.helpers.made_data import noise

MINE = """
from pathlib import Path
from torch import nn

Path("executed").touch()


def tiny(shape, *, width: int = 8):
    return nn.Sequential(nn.Conv2d(shape[0], width, 3, 4, 1), nn.ReLU())
"""

SCRIPT = """
import json, sys
from linsep.cli import main
codes = []
for words in json.loads(sys.argv.pop()):
    sys.argv[1:] = words
    try:
        main()
        codes.append(0)
    except SystemExit as ended:
        codes.append(int(ended.code or 0))
print(codes)
"""


@pytest.mark.slow
@pytest.mark.parametrize("trained", [(), ("--train", "head")])
def test_every_command_asks_before_it_executes(trained: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    for seed, name in enumerate(("ant", "bee")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i, image in enumerate(noise(seed, 6, 12, 12, 3)):
            Image.fromarray(image).save(tmp_path / "photos" / name / f"{i}.png")
    made = ("--net", "mine.py:tiny", "--method", "er", "--memory", "4", "--epochs", "1", "-q")
    assert command("learn", "m", "photos", *made, *trained, cwd=tmp_path).returncode == 0
    (tmp_path / "executed").unlink()
    uses = [
        ("learn", "m", "photos", "--again"),
        ("predict", "m", "photos"),
        ("export", "m", "-o", "m.pt2"),
        ("model", "m"),
    ]
    # In a process of its own: here the file was executed already.
    start = [sys.executable, "-c", SCRIPT, json.dumps(uses)]
    done = subprocess.run(start, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[2, 2, 2, 0]", done
    assert done.stderr.count("not executed without your consent; name the file with --custom") == 3
    assert not (tmp_path / "executed").exists()
    for words in uses[:3]:
        said = command(*words, "--custom", "mine.py", cwd=tmp_path)
        assert said.returncode == 0, said.stderr
    assert (
        len(IncrementalClassifier.load(tmp_path / "m", custom=[str(tmp_path / "mine.py")]).history_)
        == 2
    )
