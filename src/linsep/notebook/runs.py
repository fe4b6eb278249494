"""Train runs as `linsep run` does, with the same key and the same bits; select runs, compare, plot
and report them."""

from __future__ import annotations

import signal
import threading
from collections import UserList
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from ..compare.summaries import differences, listing, long, notes, per_class, summary
from ..compare.tables import Table
from ..compare.variants import Comparison, compare
from ..errors import ConfigError, shortened, unknown
from ..learning.metrics import PROTOCOLS
from ..optional import needed
from ..settings.config import Config, from_settings
from ..settings.layers import merged, read
from ..settings.sections import Keep
from ..storage.files import reporting
from ..storage.store import Record, Store, read_facts
from .saved import SavedRun, as_html, labelled, new_axes, picture

if TYPE_CHECKING:
    from torch import nn

    from ..data.images import Dataset
    from ..storage.session import Session

Settings = Config | Mapping[str, Any] | str | PathLike[str]
ROWS = 40  # that a notebook shows of a long list


def train(
    config: Settings,
    *,
    data: Dataset | None = None,
    net: nn.Module | None = None,
    runs: str | PathLike[str] = "runs",
    keep: Keep | None = None,
    save_every: float = 30.0,
    progress: bool = False,
) -> SavedRun:
    """Train a run in its folder under `runs`, resume it if it was stopped, and return it.

    >>> import linsep
    >>> config = {"scenario": "blobs", "method": "er", "memory": 20, "training": {"epochs": 1}}
    >>> run = linsep.train(config)
    >>> run.name.startswith("blobs-er-m20-s0-")
    True
    >>> run.metrics["class_il"]["faa"] == linsep.train(config).metrics["class_il"]["faa"]
    True

    The folder is the one that `linsep run` writes for these settings. A finished run is returned at
    once. Ctrl-C, or a notebook's stop button, saves the run first: call `train` again to resume it.

    `config` is a `linsep.Config`, a dict with the tables of a TOML file or with dotted or short
    names ("training.epochs", "epochs"), or the path of a TOML file. `data` and `net` are a data set
    and a backbone of your own; `keep` chooses the snapshots that analyses need: "end", "tasks" or
    "epochs".
    """
    import torch

    from ..prepare import prepare
    from ..storage.resumable import threads
    from ..storage.session import Session

    if keep not in (None, *get_args(Keep)):
        raise ConfigError(f"keep: {unknown('kind', keep, get_args(Keep))}")
    prepared = prepare(configured(config), data=data, net=net)
    # A run sets the number of threads that its bits depend on; the session gets its own back.
    kept = threads(torch.get_num_threads())
    with kept, Session(prepared, Path(runs), save_every=save_every, keep=keep) as session:
        if session.run is not None:
            _follow(session, progress)
    return SavedRun(Record(session.folder, read_facts(session.folder)), prepared=prepared)


def configured(config: Settings) -> Config:
    """Return the config that a Config, a dict of settings, or a TOML file stands for."""
    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        settings, where = merged({str(name): value for name, value in config.items()}), "config"
    elif isinstance(config, str | PathLike):
        settings, where = read(Path(config)), str(config)
    else:
        raise ConfigError(
            f"config: should be a linsep.Config, a dict or the path of a TOML file, "
            f"not {shortened(config)}"
        )
    if "over" in settings:
        raise ConfigError(f"{where}: has lists under [over]; train one run, or use `linsep grid`")
    settings.pop("search", None)  # of `linsep search`, which may share the file
    return from_settings(settings)


def _follow(session: Session, progress: bool) -> None:
    """Train to the end; a signal saves first, and is then passed on."""
    from ..cli.progress import watched
    from ..cli.terminal import Stop, open_console

    stopping = Stop()
    with ExitStack() as opened:
        if threading.current_thread() is threading.main_thread():  # where signals arrive
            opened.enter_context(stopping)
        for _ in watched(session, open_console(quiet=not progress), stopping):
            pass
    if stopping.signal is not None:
        signal.raise_signal(stopping.signal)


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


class Runs(UserList[SavedRun]):
    """A list of runs that can be compared, plotted and reported.

    >>> import linsep
    >>> settings = {"scenario": "blobs", "training.epochs": 1}
    >>> two = linsep.Runs(linsep.train(settings | {"method": method}) for method in ("er", "ft"))
    >>> two
    Runs(2 runs, 2 finished)
    >>> [run.config.method for run in two]
    ['er', 'ft']
    """

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each run: its settings, status and metrics."""
        pandas = needed("pandas", "to_pandas")
        rows = [dict(run.record.facts) for run in self]
        return pandas.DataFrame(rows, index=[run.name for run in self])

    def compare(self, against: str | None = None) -> Compared:
        """Compare methods seed by seed, as `linsep compare` does."""
        return Compared(compare((run.record for run in self), against))

    def plot(self, protocol: str = "class_il", axes: Any = None) -> Any:
        """Draw each method's average accuracy over the tasks so far, with a band of one standard
        deviation over seeds; return matplotlib's axes."""
        from ..report.draw_accuracy import averages
        from ..report.gather import load_runs
        from ..report.lines import series

        if protocol not in PROTOCOLS:
            raise ConfigError(unknown("protocol", protocol, PROTOCOLS))
        loaded, axes = load_runs(run.record for run in self), new_axes(axes)
        for variant in loaded.variants:
            found = (point for matrix in variant.matrices(protocol) for point in averages(matrix))
            look, line = variant.look, series(variant.title, variant.look, found)
            if line is None:
                continue
            x, mean, std = np.array([(p.x, p.mean, p.std or 0.0) for p in line.points]).T
            drawn = {"color": look.colour, "marker": look.marker, "linestyle": look.dash}
            axes.plot(x, mean, label=variant.title, **drawn)
            if std.any():
                axes.fill_between(x, mean - std, mean + std, color=look.colour, alpha=0.15)
        return labelled(axes, f"{loaded.scenarios}, {PROTOCOLS[protocol]}")

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
        if not self:
            return as_html(repr(self), [])
        more = [f"and {len(self) - ROWS} more"] if len(self) > ROWS else []
        return as_html("", [self._listing(ROWS)], more)

    def _listing(self, most: int) -> Table:
        return listing([run.record for run in self[:most]])


@dataclass(frozen=True)
class Report(PathLike[str]):
    """A report that was written: its path, and in a notebook the page itself."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        with reporting(f"cannot read {self.path}"):
            content = escape(self.path.read_text("utf-8")).replace("\n", "&#10;")
        return (  # its scripts work, and cannot reach the notebook
            '<iframe title="report" sandbox="allow-scripts allow-downloads" loading="lazy" '
            f'style="width: 100%; height: 40em; border: 0" srcdoc="{content}"></iframe>'
        )


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
    def per_class(self) -> Table:
        """Class-IL accuracy on each class at the end, with a column for each method."""
        return per_class(self.comparison)

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
        image = picture(lambda axes: runs.plot(axes=axes), title)
        return as_html("", self._tables(), self.notes, image)

    def _tables(self) -> list[Table]:
        return [table for table in (self.summary, self.differences) if table.rows]
