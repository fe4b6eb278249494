"""Every field of every file of a run, wrong in every way, and commands that read the run.

A command over one run must do its work or refuse in one line; one over many must serve the others.
"""

import json
import tomllib
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import tomli_w
import torch

from linsep.storage import files

from .badness import CONTENTS, JSON, MARK, PLACES, TOML, changed, fields, without
from .case import Case, Spoil, putting, writing
from .stage import ANALYSES, DRAWN, HALF, NAME, OTHER, QUICKLY

# By name: the words, and what is printed of the runs that are good.
Command = tuple[tuple[str, ...], str]
LOOK: dict[str, Command] = {
    "show": (("show", NAME), ""),
    "runs": (("runs",), OTHER),
    "compare": (("compare",), "DER++ + BFP"),
    "runs sorted": (("runs", "--sort", "-faa,memory", "--where", "seed<9"), OTHER),
    "compare one": (("compare", NAME), ""),
    "run": (("run", "config.toml"), ""),
    "json": (("runs", "--format", "json"), OTHER),
    "csv": (("compare", "--format", "csv"), "derpp+bfp"),
    "log": (("log", NAME, "--to", "tensorboard", "-o", "log"), ""),
    "grid": (("grid", "config.toml", "--over", "seed=0,1", "--dry-run"), OTHER),
}
ANALYSE: dict[str, Command] = {
    f"analyse {name}": (("analyse", NAME, "--what", name, *QUICKLY), "") for name in ANALYSES
}
ANALYSE["analyse all"] = (("analyse", "--what", "spectrum"), "DER++ + BFP")
RESUME: dict[str, Command] = {
    "resume": (("run", "config.toml", "-q"), ""),
    "show": (("show", HALF), ""),
    "runs": (("runs",), ""),  # without a config, the folder is no run
    "dry run": (("grid", "config.toml", "--over", "seed=2", "--dry-run"), HALF),
}
DRAW: dict[str, Command] = {
    "report": (("report",), "Report of"),
    "figures": (("report", "--figures", "figures", "--format", "svg"), "figures of"),
    "report one": (("report", DRAWN), ""),
}


def of_finished(stage: Path) -> dict[str, list[Case]]:
    """Cases by the file that is spoiled."""
    every = LOOK | ANALYSE
    named: dict[str, dict[str, Command]] = {
        "results.json": every, "config.toml": every, "events.jsonl": LOOK, "timing.jsonl": LOOK,
        "manifest.json": every, "model.safetensors": LOOK,
        "snapshots/task02.safetensors": ANALYSE,
    }  # fmt: skip
    for one in ANALYSES:
        named[f"analysis/{one}.json"] = {k: v for k, v in ANALYSE.items() if k.endswith(one)}
    return {name: list(_cases(stage, NAME, name, commands)) for name, commands in named.items()}


def of_stopped(stage: Path) -> dict[str, list[Case]]:
    names = (
        "config.toml", "events.jsonl", "timing.jsonl", "manifest.json",
        "lease.1", "state.safetensors",
    )  # fmt: skip
    found = {f"stopped {name}": list(_cases(stage, HALF, name, RESUME)) for name in names}
    return found | {
        "contents of state.safetensors": list(_states(stage, f"runs/{HALF}/state.safetensors"))
    }


def of_drawn(stage: Path, file: str) -> dict[str, list[Case]]:
    return {f"drawn {file}": list(_cases(stage, DRAWN, file, DRAW, every=15))}


def _cases(
    stage: Path, run: str, file: str, commands: dict[str, Command], every: int = 1
) -> Iterator[Case]:
    """Every field and every kind of content, each with the next of the commands."""
    path, turn = f"runs/{run}/{file}", cycle(commands)

    def case(what: str, spoil: Spoil, called: str = "", denied: str = "") -> Case:
        called = called or next(turn)
        words, others = commands[called]
        return Case(f"{file}: {what}: {called}", words, spoil, others, denied)

    whole = (stage / path).read_bytes()
    for called in commands if every == 1 else [""]:
        for name, make in PLACES.items():
            yield case(name, putting(path, make), called)
        yield case("unreadable", lambda room: None, called, path)
    yield case("unreadable folder", lambda room: None, denied=str(Path(path).parent))
    for name, spoiled in CONTENTS.items():
        yield case(name, writing(path, spoiled(whole)))
    for what, content in islice(_wrong(path, whole), 0, None, every):
        yield case(what, writing(path, content))


def _wrong(path: str, whole: bytes) -> Iterator[tuple[str, bytes]]:
    """The file with one of its fields wrong or missing."""
    if path.endswith(".toml"):
        tree = tomllib.loads(whole.decode())
        for place, name, text in _values(tree, TOML):
            content = tomli_w.dumps(changed(tree, place)) if place else f"x = '{MARK}'"
            yield name, content.replace(f'"{MARK}"', text).encode()
        yield from ((n, tomli_w.dumps(left).encode()) for n, left in _lacking(tree))
    elif path.endswith((".json", ".jsonl", ".1")):
        lines = whole.splitlines(keepends=True) if path.endswith("l") else [whole]
        for i in (0, len(lines) - 1) if len(lines) > 1 else (0,):
            tree, rest = json.loads(lines[i]), b"".join(lines[i + 1 :])
            before = b"".join(lines[:i])
            for place, name, text in _values(tree, JSON):
                bad = json.dumps(changed(tree, place)).replace(f'"{MARK}"', text)
                yield f"line {i} {name}", before + bad.encode() + b"\n" + rest
            for name, left in _lacking(tree):
                yield f"line {i} {name}", before + json.dumps(left).encode() + b"\n" + rest


def _values(tree: Any, values: dict[str, str]) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Places and values; where there are many, each place has some of the values."""
    places = list(fields(tree, most=1))
    texts = list(values.items())
    some = len(texts) if len(places) < 12 else 6
    for i, place in enumerate(places):
        for k in range(some):
            name, text = texts[(i * some + k) % len(texts)]
            yield place, f"{_spelled(place)} = {name}", text


def _lacking(tree: Any) -> Iterator[tuple[str, Any]]:
    for place in fields(tree, most=1):
        if place:
            yield f"{_spelled(place)} missing", without(tree, place)


def _spelled(place: Sequence[str | int]) -> str:
    return ".".join(map(str, place)) or "all"


WRONG_PARTS: dict[str, Any] = {
    "None": None, "text": "x", "negative": -1, "huge": 10**30, "true": True, "NaN": float("nan"),
    "list": [], "table": {}, "empty": torch.zeros(0), "scalar": torch.tensor(1.5),
    "long": torch.zeros(3, 5, 7), "not finite": torch.full((4,), torch.nan),
    "complex": torch.zeros(4, dtype=torch.complex64),
}  # fmt: skip


def _states(stage: Path, path: str) -> Iterator[Case]:
    """A sealed state with one wrong part; the one before it is there, or has the same fault."""
    state = files.unseal(stage / path)
    parts = list(WRONG_PARTS.items())
    words, resume = RESUME["resume"][0], []
    for i, place in enumerate(fields(state, most=1)):
        if place:
            resume.append((f"{_spelled(place)} missing", without(state, place)))
        for k in range(3):
            name, value = parts[(3 * i + k) % len(parts)]
            resume.append((f"{_spelled(place)} = {name}", changed(state, place, value)))
    previous = path.replace("state.safetensors", "state.previous.safetensors")
    for i, (what, content) in enumerate(resume):
        sealed = files.seal(content)

        def spoil(room: Path, sealed: bytes = sealed, both: bool = i % 2 == 1) -> None:
            writing(path, sealed)(room)
            if both:
                writing(previous, sealed)(room)

        yield Case(f"state.safetensors: {what}: resume", words, spoil)
