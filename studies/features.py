"""What happens to the features: figures 2, 4 and 5 of the paper, from the protocol's runs.

Fine-tuning and DER++, each plain, with feature distillation and with BFP, and joint training, on
the seeds that every part of the protocol has; and DER++ + BFP over the weight of BFP.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from linsep.analysis.analyse import Row, find, stored
from linsep.compare.statistics import Summary, summarise
from linsep.compare.tables import Spread, Table, Value
from linsep.compare.variants import title
from linsep.storage.store import Record

from .claims import Side
from .evidence import SEEDS, Runs

SIDES = (
    *(Side("without memory", method) for method in ("ft", "ft+fd", "ft+bfp")),
    Side("main", "derpp"), Side("ablation", "derpp+fd"), Side("main", "derpp+bfp"),
    Side("without memory", "jt"),
)  # fmt: skip
PORTIONS = (0.01, 0.033, 0.1, 0.33, 1.0)  # of the training images, for a probe
WEIGHTS = {0.0: "control", 0.1: "gamma", 0.3: "gamma", 1.0: "main", 3.0: "gamma", 10.0: "gamma"}
NEEDED = "k for 95 %, all seen"
WEIGHED = (2, 3, 4)  # seeds of the part `gamma`
Line = Sequence[tuple[float, Summary]]  # x, and what the seeds gave there


@dataclass(frozen=True)
class Analysed:
    """A method's runs, and the rows that their analyses have in tables: by kind, run by run."""

    method: str
    runs: Sequence[Record]
    found: Mapping[str, Sequence[Sequence[Row]]]

    @property
    def title(self) -> str:
        return title(self.method)

    def overall(self, kind: str, column: str) -> Summary | None:
        """Over seeds, of a run's mean over tasks."""
        means = [
            sum(known) / len(known)
            for rows in self.found[kind]
            if (known := [v for _, numbers in rows if (v := numbers.get(column)) is not None])
        ]
        return summarise(means) if means else None

    def by_task(self, kind: str, column: str) -> Line:
        """Over seeds, after each task, or of each task."""
        place = find(kind).places.index("task")
        values: dict[float, list[float]] = {}
        for rows in self.found[kind]:
            for where, numbers in rows:
                task, value = where[place], numbers.get(column)
                if isinstance(task, int) and value is not None:
                    values.setdefault(task, []).append(value)
        return [(task, summarise(known)) for task, known in sorted(values.items())]

    def by_portion(self) -> Line:
        """The accuracy of a linear probe, over the portion of the training images it has seen."""
        spreads = ((portion, self.overall("probe", _percent(portion))) for portion in PORTIONS)
        return [(100 * portion, found) for portion, found in spreads if found is not None]


def analysed(runs: Runs) -> list[Analysed]:
    """Every method that has been analysed."""
    found = [_analysed(side, runs) for side in SIDES]
    return [one for one in found if any(one.found.values())]


def _analysed(side: Side, runs: Runs) -> Analysed:
    wanted = [s for s in runs.wanted(side) if s["seed"] in SEEDS]
    records = [record for settings in wanted if (record := runs.run(settings)) is not None]
    kinds = ("spectrum", "probe", "cka", "projection")
    return Analysed(side.method, records, {kind: list(_rows(kind, records)) for kind in kinds})


def _rows(kind: str, records: Sequence[Record]) -> Iterator[list[Row]]:
    for record in records:
        content = stored(record.folder, kind)
        if content is not None:
            yield list(find(kind).rows(content))


def probes(several: Sequence[Analysed]) -> Table:
    """Figure 4: the trained head beside linear probes of the final features."""
    names = [_percent(portion) for portion in PORTIONS]
    rows = [
        [one.title, *(_spread(one.overall("probe", name)) for name in ("own head", *names))]
        for one in several
        if one.found["probe"]
    ]
    return Table(["method", "trained head", *(f"probe, {name}" for name in names)], rows)


def similarities(several: Sequence[Analysed]) -> Table:
    """Figure 5: CKA before and after a task, means over tasks."""
    rows = [
        [one.title, *(_spread(one.overall("cka", f"{on}, centred")) for on in ("seen", "unseen"))]
        for one in several
        if one.found["cka"]
    ]
    return Table(["method", "CKA x 100, seen classes", "CKA x 100, new classes"], rows)


def directions(several: Sequence[Analysed]) -> Table:
    """Figure 2: how many principal directions the features fill, and the head needs."""
    lines = {
        one.title: [dict(one.by_task("spectrum", c)) for c in ("effective rank", NEEDED)]
        for one in several
        if one.found["spectrum"]
    }
    tasks = sorted({task for filled, _ in lines.values() for task in filled})
    rows: list[list[Value]] = [
        [
            name,
            *(
                f"{filled[t].mean:.1f} / {needed[t].mean:.1f}" if t in filled else None
                for t in tasks
            ),
        ]
        for name, (filled, needed) in lines.items()
    ]
    return Table(["method", *(f"task {task:g}" for task in tasks)], rows)


def projections(several: Sequence[Analysed]) -> Table:
    """What the map A learned, means over tasks."""
    columns = {
        "old head before": "before the task", "on A h(x)": "on A h(x)",
        "agreement": "same decision", "to identity": "A to the identity",
        "to orthogonal": "to a rotation", "effective rank": "effective rank",
    }  # fmt: skip
    rows = [
        [one.title, *(_spread(one.overall("projection", name)) for name in columns)]
        for one in several
        if one.found["projection"]
    ]
    return Table(["method", *columns.values()], rows)


def weights(runs: Runs) -> Table:
    """Stability against plasticity: DER++ + BFP over the weight of BFP."""
    rows: list[list[Value]] = []
    for weight, part in WEIGHTS.items():
        fields = {"bfp.weight": weight} if part == "gamma" else {}
        wanted = runs.wanted(Side(part, "derpp+bfp", fields))
        found = [runs.run(settings) for settings in wanted if settings["seed"] in WEIGHED]
        records = [record for record in found if record is not None]
        if len(records) == len(WEIGHED):
            rows.append([f"{weight:g}", *(_of(records, metric) for metric in ("faa", "ff", "ala"))])
    return Table(["weight", "Class-IL FAA", "Class-IL FF", "Class-IL ALA"], rows)


def _of(records: Sequence[Record], metric: str) -> Spread | None:
    values = [float(record.facts[f"class_il.{metric}"] or 0.0) for record in records]
    return _spread(summarise(values))


def _percent(portion: float) -> str:
    """As the analysis names it: '3.3 %'."""
    return f"{100 * portion:g} %"


def _spread(found: Summary | None) -> Spread | None:
    return None if found is None else Spread(found.mean, found.std)
