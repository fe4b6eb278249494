"""What analyses of many runs found, as tables: a row for each arm and place, over its seeds.

Knows the contents that `analyse` makes and how a comparison sorts runs. Knows no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ..compare.arms import Arm, spelled
from ..compare.statistics import mean, std
from ..compare.tables import Spread, Table, Value
from .contents import Content

Row = tuple[tuple[Value, ...], dict[str, float | None]]  # where, and what was found there


def findings(what: str, arms: Sequence[Arm], found: Mapping[Path, Content]) -> Table:
    """Of one analysis. `found` is by the runs' folders."""
    title, places, rows_of = TABLES[what]
    several = any(arm.block for arm in arms)
    rows: list[list[Value]] = []
    columns: list[str] = []
    for arm in arms:
        gathered: dict[tuple[Value, ...], list[dict[str, float | None]]] = {}
        for record in arm.runs.values():
            if record.folder in found:
                for place, numbers in rows_of(found[record.folder]):
                    gathered.setdefault(place, []).append(numbers)
        for place, over_seeds in gathered.items():
            columns = columns or list(over_seeds[0])
            start: list[Value] = [spelled(arm.block)] if several else []
            cells = [_spread([one[name] for one in over_seeds]) for name in columns]
            rows.append([*start, arm.label, *place, len(over_seeds), *cells])
    head = ["runs of"] if several else []
    return Table([*head, "method", *places, "seeds", *columns], rows, caption=title)


def _spread(values: list[float | None]) -> Value:
    known = [v for v in values if v is not None]
    if not known:
        return None
    return Spread(mean(known), std(known)) if len(known) > 1 else known[0]


def _spectrum(content: Content) -> Iterator[Row]:
    for task in content["tasks"]:
        numbers: dict[str, float | None] = {"effective rank": task["effective_rank"]}
        for name, on in (("newest", "newest task"), ("seen", "all seen")):
            curve = task["proj_acc"][name]
            numbers[f"accuracy, {on}"] = 100 * curve[-1]
            numbers[f"k for 95 %, {on}"] = directions_for(curve, 0.95)
        yield (task["task"] + 1, task["classes"]), numbers


def directions_for(curve: Sequence[float], share: float) -> int:
    """The fewest directions that give so much of the curve's maximum."""
    goal = share * max(curve) - 1e-12
    return next(k for k, value in enumerate(curve) if value >= goal)


def _cka(content: Content) -> Iterator[Row]:
    for task in content["tasks"]:
        kinds = ("centred", "debiased")
        sides = ("seen", "unseen")
        yield (
            (task["task"] + 1,),
            {f"{side}, {kind}": 100 * task[side][kind] for kind in kinds for side in sides},
        )


def _probe(content: Content) -> Iterator[Row]:
    by_portion: dict[float, list[float]] = {}
    for one in content["final"]:
        by_portion.setdefault(one["portion"], []).append(100 * one["accuracy"])
    numbers: dict[str, float | None] = {"trained head": 100 * content["head"]}
    for portion, values in by_portion.items():
        numbers[f"{100 * portion:g} %"] = mean(values)
    yield (), numbers


def _tsne(content: Content) -> Iterator[Row]:
    yield (content["task"] + 1, content["engine"]), {"points": len(content["labels"])}


def _projection(content: Content) -> Iterator[Row]:
    shown = {
        "old head before": ("accuracy_before", 100),
        "on A h(x)": ("accuracy", 100),
        "agreement": ("agreement", 100),
        "residual": ("residual", 100),
        "to identity": ("to_identity", 1),
        "to orthogonal": ("to_orthogonal", 1),
        "effective rank": ("effective_rank", 1),
    }
    for place in content["places"]:
        epoch = "end" if place["epoch"] is None else f"{place['stage']} {place['epoch'] + 1}"
        numbers = {
            title: None if place.get(name) is None else factor * place[name]
            for title, (name, factor) in shown.items()
        }
        yield (place["term"], place["task"] + 1, epoch), numbers


Maker = Callable[[Content], Iterator[Row]]
TABLES: Mapping[str, tuple[str, tuple[str, ...], Maker]] = {
    "spectrum": ("spectrum of the features and proj-acc, %", ("task", "classes"), _spectrum),
    "cka": ("CKA before and after each task, x 100", ("task",), _cka),
    "probe": ("linear probing of the final features, accuracy in %", (), _probe),
    "tsne": ("features on a plane", ("task", "engine"), _tsne),
    "projection": ("the old head on projected features, %", ("term", "task", "epoch"), _projection),
}
