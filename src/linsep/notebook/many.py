"""Several runs, selected by settings and results, as a frame, a comparison, a plot, a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, overload

from ..compare.summaries import differences, listing, long, notes, summary
from ..compare.tables import Table
from ..compare.variants import Comparison, compare
from ..optional import needed
from ..storage.files import reporting
from ..storage.store import Store
from . import display
from .saved import SavedRun

ROWS = 40  # that a notebook shows of a long list


def runs(
    where: str | None = None,
    *,
    sort: str | None = None,
    runs: str | PathLike[str] = "runs",
) -> Runs:
    """List the runs in a folder; `where` and `sort` are those of `linsep runs`.

    >>> import linsep
    >>> for method in ("er", "er+bfp"):
    ...     run = linsep.train({"scenario": "blobs", "method": method, "training.epochs": 1})
    >>> found = linsep.runs(where="scenario=blobs and epochs=1", sort="-faa")
    >>> len(found.compare().comparison.variants) >= 2
    True
    """
    return Runs(SavedRun(record) for record in Store(Path(runs)).select(where, sort))


class Runs(Sequence[SavedRun]):
    """A list of runs that can be compared, plotted and reported.

    >>> import linsep
    >>> settings = {"scenario": "blobs", "training.epochs": 1}
    >>> two = linsep.Runs(linsep.train(settings | {"method": method}) for method in ("er", "ft"))
    >>> two
    Runs(2 runs, 2 finished)
    >>> [run.config.method for run in two]
    ['er', 'ft']
    """

    def __init__(self, runs: Iterable[SavedRun]) -> None:
        self._runs = list(runs)

    @overload
    def __getitem__(self, place: int) -> SavedRun: ...
    @overload
    def __getitem__(self, place: slice) -> Runs: ...
    def __getitem__(self, place: int | slice) -> SavedRun | Runs:
        return Runs(self._runs[place]) if isinstance(place, slice) else self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each run: its settings, status and metrics."""
        pandas = needed("pandas", "to_pandas")
        rows = [dict(run.record.facts) for run in self]
        return pandas.DataFrame(rows, index=[run.name for run in self])

    def compare(self, against: str | None = None) -> Compared:
        """Compare methods seed by seed, as `linsep compare` does."""
        return Compared(compare((run.record for run in self), against))

    def plot(self, protocol: str = "class_il", axes: Any = None) -> Any:
        """Draw each method's average accuracy after each task; return matplotlib's axes."""
        from ..report.gather import load_runs

        return display.variants(load_runs(run.record for run in self), protocol, axes)

    def report(self, path: str | PathLike[str] = "report.html") -> Report:
        """Write the HTML report that `linsep report` writes; a notebook shows it."""
        from ..report.gather import load_runs
        from ..report.page import page

        target = Path(path)
        content = page(load_runs(run.record for run in self))
        with reporting(f"cannot write {target}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
        return Report(target)

    def __repr__(self) -> str:
        done = sum(run.finished for run in self)
        return f"Runs({len(self)} run{'s' * (len(self) != 1)}, {done} finished)"

    def __str__(self) -> str:
        return self._listing(len(self)).to_text() if self else repr(self)

    def _repr_html_(self) -> str:
        more = [f"and {len(self) - ROWS} more"] if len(self) > ROWS else []
        return (
            display.block("", [self._listing(ROWS)], more)
            if self
            else display.block(repr(self), [])
        )

    def _listing(self, most: int) -> Table:
        return listing([run.record for run in self._runs[:most]])


@dataclass(frozen=True)
class Report(PathLike[str]):
    """A report that was written: its path, and in a notebook the page itself."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        with reporting(f"cannot read {self.path}"):
            return display.framed(self.path.read_text("utf-8"))


@dataclass(frozen=True, repr=False)
class Compared:
    """Methods compared seed by seed: tables of means, of paired differences, and notes.

    >>> import linsep
    >>> settings = {"scenario": "blobs", "training.epochs": 1}
    >>> two = linsep.Runs(linsep.train(settings | {"method": m}) for m in ("er", "er+bfp"))
    >>> two.compare()
    Compared(er, er+bfp)
    >>> two.compare().summary.columns[:3]
    ['protocol', 'method', 'seeds']
    """

    comparison: Comparison

    @property
    def summary(self) -> Table:
        """Mean ± std of every method, with intervals; `.to_latex()`, `.to_markdown()` and more."""
        return summary(self.comparison)

    @property
    def differences(self) -> Table:
        """Each method minus the one it is paired with, with intervals and p values."""
        return differences(self.comparison)

    @property
    def notes(self) -> list[str]:
        """What a reader should know beside the tables."""
        return notes(self.comparison)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each method and metric, all digits kept."""
        pandas = needed("pandas", "to_pandas")
        table = long(self.comparison)
        return pandas.DataFrame(list(table.rows), columns=list(table.columns))

    def __repr__(self) -> str:
        return f"Compared({', '.join(dict.fromkeys(a.label for a in self.comparison.variants))})"

    def __str__(self) -> str:
        return "\n".join([*(table.to_text() for table in self._tables()), *self.notes])

    def _repr_html_(self) -> str:
        runs = Runs(
            SavedRun(r) for variant in self.comparison.variants for r in variant.runs.values()
        )
        title = "Average accuracy of each method after each task"
        image = display.picture(lambda axes: runs.plot(axes=axes), title)
        return display.block("", self._tables(), self.notes, image)

    def _tables(self) -> list[Table]:
        return [table for table in (self.summary, self.differences) if table.rows]
