"""Kill `linsep run` and `linsep learn` at random moments, repeat them, and compare every bit.

    python scripts/kill_and_resume.py --kills 100

Each command runs in a process of its own, which SIGKILL ends at a random moment, until it has been
killed so many times. Whenever it gets to its end, weights, events and results must be those of the
command that nobody killed; then it begins again in a new folder, with another seed for `run`.
"""

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the tests' helpers

import linsep.classifier.teaching  # imported once, before the processes are forked
import linsep.storage.session  # noqa: F401
from tests.helpers.command import command
from tests.helpers.made_data import write_image
from tests.helpers.real_runs import contents, model_contents

REPLAYING = ("derpp+bfp", "icarl", "bic", "lucir", "fdr+fd", "er+star")
METHODS = (*REPLAYING, "ewc+bfp", "ft+transport")
MONTHS = {"january": ("ant", "bee"), "february": ("cow", "dog")}
# A save at every event, so that many kills fall into one.
QUICK = ("--epochs", "2", "--save-every", "0", "-q", "--set", "training.batch_size=8")


def run(place: Path, photos: Path, number: int) -> None:
    words = ["--scenario", "blobs", "--set", "scenario.train=20", "--set", "scenario.test=5"]
    finish(place, "run", *words, *learned_by(number), *QUICK, "--runs", "runs")


def learn(place: Path, photos: Path, number: int) -> None:
    for month in MONTHS:
        words = ["--net", "mlp", *learned_by(number), *QUICK]
        finish(place, "learn", "model", str(photos / month), *words)


def learned_by(number: int) -> list[str]:
    method = METHODS[number % len(METHODS)]
    memory = ["--memory", "12"] if method in REPLAYING else []
    return ["--method", method, *memory, "--seed", str(number)]


def finish(place: Path, *words: str) -> None:
    said = command(*words, cwd=place)
    if said.returncode:
        sys.exit(said.stderr)


def found(place: Path) -> dict[str, Any]:
    """What must be equal: the files of the one run or of the model in a folder."""
    for folder in (place / "runs").glob("blobs-*"):
        return dict(contents(folder))
    return model_contents(place / "model")


def survive(work: Callable[[Path, Path, int], None], kills: int, photos: Path, room: Path) -> int:
    """Kill so many times; return how many commands got to their end and were compared."""
    fork, moments, done, number = multiprocessing.get_context("fork"), random.Random(0), 0, 0
    while done < kills:
        straight, killed = room / f"{number} straight", room / f"{number} killed"
        straight.mkdir()
        killed.mkdir()
        process = fork.Process(target=work, args=(straight, photos, number))
        began = time.monotonic()
        process.start()
        process.join()
        duration, code = time.monotonic() - began, None
        while code != 0:
            process = fork.Process(target=work, args=(killed, photos, number))
            process.start()
            process.join(moments.uniform(0.1, 1.0) * duration if done < kills else None)
            done += process.exitcode is None
            process.kill()
            process.join()
            code = process.exitcode
            if code not in (0, -9):
                raise SystemExit(f"{work.__name__} {number} exits with {code} after a kill")
        if found(straight) != found(killed):
            raise SystemExit(f"{work.__name__} {number} differs after kills: see {room}")
        number += 1
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of each command")
    parser.add_argument("--what", choices=("run", "learn"), help="default: both")
    given = parser.parse_args()
    room = Path(tempfile.mkdtemp(prefix="linsep-kills-"))
    photos = room / "photos"
    for m, (month, classes) in enumerate(MONTHS.items()):
        for c, name in enumerate(classes):
            for i in range(12):
                write_image(photos / month / name / f"{i}.png", 100 * m + 50 * c + i)
    for work in (run, learn):
        if given.what in (None, work.__name__):
            (place := room / work.__name__).mkdir()
            began = time.monotonic()
            compared = survive(work, given.kills, photos, place)
            took = time.monotonic() - began
            print(f"{work.__name__}: {given.kills} kills, {compared} compared, {took:.0f} s")


if __name__ == "__main__":
    main()
