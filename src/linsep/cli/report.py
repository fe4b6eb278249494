"""`linsep report` and `analyse`: finished runs as a page, as figures, and as tables of analyses."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer import Option

from ..analysis import ANALYSES
from ..compare.tables import Table
from ..errors import ConfigError, LinsepError, StateError, unknown
from ..optional import needed
from ..report.canvas import FORMATS
from ..storage import files
from ..storage.store import Record
from . import flags
from .terminal import INTERRUPTED, say, wide_console

if TYPE_CHECKING:
    from ..report.gather import LoadedRuns

PAGE = Path("report.html")
FIGURES = "Write figures and their data here; no page unless -o is given."
GridFile = Annotated[str | None, Option(metavar="CONFIG", help="Only the runs of this grid.")]
Page = Annotated[Path | None, Option("--output", "-o", metavar="FILE", help=f"Default: {PAGE}.")]
Open = Annotated[bool, Option("--open", help="Open the page in the browser.")]
Figures = Annotated[Path | None, Option("--figures", metavar="DIR", help=FIGURES)]
Only = Annotated[str | None, Option(metavar="NAMES", help="Only these figures: forgetting,cka")]
Formats = Annotated[str, Option("--format", metavar="FORMATS", help="Of figures: svg, pdf, png.")]
ENGINES = ("opentsne", "sklearn", "pca")
What = Annotated[
    str | None,
    Option(help=f"{', '.join((*ANALYSES, 'gamma'))}. Default: all."),
]
ENGINE = f"tsne: {', '.join(ENGINES)}. Default: the best one installed."


@dataclass(frozen=True)
class Options:
    """The options of the analyses."""

    centred: Annotated[bool, Option("--centred", help="spectrum: centre the features.")] = False
    draws: Annotated[int, Option(min=1, max=1000, help="probe: samples of each portion.")] = 3
    task: Annotated[int, Option(min=2, help="tsne: the task to show before and after.")] = 2
    points: Annotated[int, Option(min=4, help="tsne: maximum number of images.")] = 1000
    engine: Annotated[
        str | None,
        Option(parser=flags.one_of("--engine: ", "engine", ENGINES), metavar="TEXT", help=ENGINE),
    ] = None
    seed: Annotated[int, Option(min=0, help="probe, tsne: random seed.")] = 0

    def of(self, names: Iterable[str]) -> dict[str, Any]:
        """Those with these names that were given; a task is counted from 1 by people."""
        given = {**vars(self), "task": self.task - 1}
        return {name: given[name] for name in names if given.get(name) is not None}


def report(
    chosen: flags.Selection,
    output: Page = None,
    grid: GridFile = None,
    open_: Open = False,
    figures: Figures = None,
    only: Only = None,
    formats: Formats = "svg,pdf",
) -> None:
    """Write a report on finished runs, or its figures as files.

    The report is one HTML page that needs no network and no other file. Sections without data are
    left out; `linsep analyse` adds spectra, probes and more. It needs pip install 'linsep\\[plot]'.

    Examples:
      linsep report --where "scenario=fashion-mini" --open
      linsep report --grid fashion-mini --figures figures --format png
    """
    kinds = _formats(formats)
    if only and not figures:
        raise ConfigError("--only chooses among the figures: give --figures DIR too")
    needed("matplotlib", "a report")
    from ..report.gather import load_runs

    found = load_runs(chosen.records(grid))
    if figures:
        _write_figures(found, figures, kinds, _listed(only))
    if output or open_ or not figures:
        _write_page(found, output or PAGE, open_)


def _listed(text: str | None) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))


def _formats(text: str) -> list[str]:
    formats = _listed(text)
    for name in formats:
        if name not in FORMATS:
            raise ConfigError(f"--format: {unknown('format', name, FORMATS)}")
    if not formats:
        raise ConfigError(f"--format: name at least one of {', '.join(FORMATS)}")
    return formats


def _write_page(found: LoadedRuns, output: Path, open_: bool) -> None:
    from ..report.page import page

    with wide_console().status(f"drawing figures of {_runs(found)}"):
        content = page(found).encode()
    _write(output, content)
    for name, why in found.left_out:
        _say(f"left out: {name}, {why}")
    _say(f"Report of {_runs(found)}: {output} ({len(content) / 1000:.0f} kB)")
    if open_ and not webbrowser.open(output.resolve().as_uri()):
        _say(f"No browser was found here; open {output} yourself.")


def _write_figures(
    found: LoadedRuns, folder: Path, formats: Sequence[str], only: Sequence[str]
) -> None:
    from ..report.page import figures

    with wide_console().status(f"drawing figures of {_runs(found)}"):
        drawn = {figure.name: figure for figure in figures(found)}
        for name in only:
            if name not in drawn:
                raise ConfigError(f"--only: {unknown('figure', name, drawn)}")
        for name in only or drawn:
            for kind in formats:
                _write(folder / f"{name}.{kind}", drawn[name].file(kind))
            _write(folder / f"{name}.csv", drawn[name].data.to_csv().encode())
    count = len(only or drawn)
    _say(f"{count} figure{'s' * (count != 1)} of {_runs(found)} in {folder}")


def _write(path: Path, content: bytes) -> None:
    with files.reporting(f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, content)


def _runs(found: LoadedRuns) -> str:
    return f"{len(found.runs)} run{'s' if len(found.runs) > 1 else ''}"


def _say(line: str) -> None:
    say(wide_console(), line)


def analyse(
    chosen: flags.Selection,
    what: What = None,
    data: flags.Data = None,
    custom: flags.Custom = None,
    *,
    options: Options,
    form: flags.Form,
) -> None:
    """Analyse features of finished runs: spectra, probes, CKA, t-SNE ...

    Results are kept with each run, where `linsep report` finds them. Repeat the command to resume
    after a stop. It needs snapshots at the ends of tasks, which `linsep run` keeps for small nets,
    and for others with --keep tasks.

    Examples:
      linsep analyse RUN --what spectrum,probe
      linsep analyse --where "method in (derpp, derpp+bfp)"
    """
    names = _listed(what)
    for name in names:
        if name not in (*ANALYSES, "gamma"):
            raise ConfigError(f"--what: {unknown('analysis', name, (*ANALYSES, 'gamma'))}")
    records = chosen.records(finished=True)
    places = {"data": data, "custom": custom or []}
    tables: list[Table] = []
    notes: list[str] = []
    if names != ["gamma"]:
        made = [name for name in names if name != "gamma"]
        tables, notes = _analysed(records, made, options, places)
        notes.append("`linsep report` draws the figures of these analyses")
    form.publish(tables + (_gamma(records) if "gamma" in names else []), notes)


def _gamma(records: Sequence[Record]) -> list[Table]:
    from ..compare.tradeoffs import curve_table, tradeoff
    from ..compare.variants import compare

    curves = tradeoff(compare(records))
    if not curves:
        raise ConfigError(
            "gamma needs runs of one method with several weights of its backward term: "
            "linsep grid --over method=derpp+bfp --over bfp.weight=0.1,1,10"
        )
    return [curve_table(curves)]


def _analysed(
    records: Sequence[Record],
    names: Sequence[str],
    options: Options,
    places: Mapping[str, Any],
) -> tuple[list[Table], list[str]]:
    """Analyse run after run: the tables, and what their columns are. A run that does not allow an
    analysis is named and skipped."""
    from ..analysis.analyse import analyse as made
    from ..analysis.analyse import find, lacking, table
    from ..analysis.features import Features, reopen
    from ..compare.variants import compare

    opened: dict[str, Any] = {}
    found: dict[str, dict[Path, dict[str, Any]]] = {name: {} for name in ANALYSES}
    skipping = partial(_skipping, alone=len(records) == 1)
    console = Console(stderr=True)
    try:
        for number, record in enumerate(records, start=1):
            told = partial(_tell, console, f"[{number}/{len(records)}] {record.name}")
            with skipping("all"):
                prepared = reopen(record.folder, opened=opened, **places)
                run = Features(record.folder, prepared, told)
                for name in names or [name for name in ANALYSES if not lacking(run, name)]:
                    with skipping(name):
                        given = options.of(find(name).options)
                        found[name][record.folder] = made(run, name, given)
    except KeyboardInterrupt:
        typer.echo("Stopped; what was done is kept. Repeat the command to resume.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    done = {name: results for name, results in found.items() if results}
    if not done:
        what = " or ".join(names) or "analysis"
        raise StateError(
            f"no {what} is possible: no run has kept what it needs (--keep tasks), or its method "
            "has no such thing"
        )
    variants = compare(records).variants
    tables = [table(name, variants, results) for name, results in done.items()]
    return tables, [find(name).note for name in done if find(name).note]


@contextmanager
def _skipping(what: str, alone: bool) -> Iterator[None]:
    """What is wrong with one run among many leaves out that run alone."""
    try:
        yield
    except LinsepError as error:
        if alone:
            raise
        typer.echo(f"left out of {what}: {error}", err=True)


def _tell(console: Console, which: str, line: str) -> None:
    say(console, f"{which}: {line}")
