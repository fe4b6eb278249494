"""The flags that several commands share, the runs that they select, and the place to run."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args

from typer import Argument, Option
from typer.core import TyperCommand, TyperGroup, TyperOption

from ..compare.tables import Table
from ..errors import ConfigError, StateError, unknown
from ..grids.engines import Engine, cpu_slots, gpu_slots, open_engine
from ..grids.plan import plan
from ..optional import needed
from ..resolve import devices
from ..settings import sections
from ..settings.layers import parsed, read_config, split
from ..storage import loggers
from ..storage.folder import RunFolder
from ..storage.store import Record, Store, open_record
from .overrides import FILE, SettingFlags
from .terminal import FORMATS, publish
from .words import WORDS


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer, whose parameters complete words and may stand for several flags.

    Such a parameter is annotated with a dataclass, for a flag per field, or with `SettingFlags`.
    """
    groups: dict[str, tuple[list[str], Callable[[dict[str, Any]], Any]]] = {}
    flags: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        inner, collect = _within(parameter.annotation)
        if collect is not None:
            groups[name] = [flag.name for flag in inner], collect
        flags += inner if collect is not None else [parameter]

    for flag in flags:
        for info in getattr(flag.annotation, "__metadata__", ()):
            info.autocompletion = WORDS.get(flag.name)

    @wraps(command)
    def ungrouped(**given: Any) -> None:
        for name, (names, collect) in groups.items():
            given[name] = collect({inner: given.pop(inner) for inner in names})
        command(**given)

    keywords = [flag.replace(kind=inspect.Parameter.KEYWORD_ONLY) for flag in flags]
    vars(ungrouped)["__signature__"] = inspect.Signature(keywords)  # where typer reads the flags
    ungrouped.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return ungrouped


def _within(hint: Any) -> tuple[list[inspect.Parameter], Callable[[dict[str, Any]], Any] | None]:
    """The flags of a group, and what makes one value of theirs; None for a single flag."""
    if isinstance(hint, type) and is_dataclass(hint):
        flags = inspect.signature(hint, eval_str=True).parameters.values()
        return list(flags), lambda given: hint(**given)
    for one in getattr(hint, "__metadata__", ()):
        if isinstance(one, SettingFlags):
            return list(one.parameters()), one.collect
    return [], None


def one_of(flag: str, kind: str, allowed: Sequence[str]) -> Callable[[str], str]:
    """Return a parser that accepts these words and suggests the closest for a misspelt one."""

    def parse(value: str) -> str:
        if value not in allowed:
            raise ConfigError(f"{flag}{unknown(kind, value, allowed)}")
        return value

    return parse


METAVARS = {int: "N", float: "NUMBER", str: "TEXT", list[str]: "TEXT", Path: "PATH"}


class _Polite:
    """Refuses a flag given twice, where the last would silently win.

    Its help is wrapped once, whatever the width.
    """

    help: str | None
    params: list[Any]

    def get_params(self, ctx: Any) -> list[Any]:
        self.help = unwrapped(self.help or "")
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for option in found:
            if getattr(option, "is_flag", False):
                option.metavar = ""
            elif isinstance(option, TyperOption):
                option.metavar = option.metavar or METAVARS.get(option.type_descriptor.annotation)
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = [word.partition("=")[0] for word in args if word.startswith("-")]
        for option in self.params:
            single = not getattr(option, "multiple", True) and not getattr(option, "is_flag", True)
            if single and sum(word in option.opts for word in words) > 1:
                raise ConfigError(f"{option.opts[0]} is given twice: give it once")
        left: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return left


def unwrapped(text: str) -> str:
    """The text with a line for each paragraph; one with indented lines stays as it is."""
    paragraphs = [p.splitlines() for p in text.split("\n\n")]
    several = [any(line.startswith(" ") for line in lines) for lines in paragraphs]
    joined = [("\n" if kept else " ").join(p) for p, kept in zip(paragraphs, several, strict=True)]
    return "\n\n".join(joined)


class Group(_Polite, TyperGroup):
    pass


class Command(_Polite, TyperCommand):
    pass


PLACE = "Where to run"  # a panel of the help
ConfigFile = Annotated[str | None, Argument(metavar="CONFIG", help=FILE)]
LOGGERS = "Log to tensorboard, wandb or mlflow; needs 'linsep\\[tensorboard]' and so on."
Runs = Annotated[Path, Option(help="Folder that holds the runs.")]
RunName = Annotated[Path, Argument(help="A run's key, name or folder.")]
Data = Annotated[str | None, Option(help="Where the images are, if they have moved.")]
OWN = "Your file with the method or net; its code is executed."
Custom = Annotated[list[str] | None, Option(metavar="FILE.py", help=OWN)]
Parts = Annotated[list[str] | None, Option("--part", metavar="NAME", help="Run only this part.")]
ALSO = "Folder of finished runs, which are not repeated."
Also = Annotated[list[Path] | None, Option("--also", metavar="DIR", help=ALSO)]
Keep = Annotated[
    sections.Keep | None,
    Option(
        metavar="WHAT",
        parser=one_of("--keep: ", "kind", get_args(sections.Keep)),
        help="Keep snapshots: end, tasks or epochs. Default: tasks; large nets: end.",
    ),
]


NAMES = "Keys, names or folders."
FILTER = "Filter: 'memory in (200, 500) and faa>60'"


@dataclass(frozen=True)
class Selection:
    """Which runs of a folder a command is about."""

    run: Annotated[list[Path] | None, Argument(metavar="RUNS", help=NAMES)] = None
    where: Annotated[str | None, Option(metavar="CONDITION", help=FILTER)] = None
    runs: Runs = Path("runs")

    def records(self, grid: str | None = None, finished: bool = False) -> list[Record]:
        """At least one run; `finished` leaves out the others. Of a grid, those that were begun."""
        if sum(map(bool, (self.run, self.where, grid))) > 1:
            ways = "--where or --grid" if grid else "--where"
            raise ConfigError(f"name runs or give {ways}, not both")
        if self.run:
            found = [open_record(one, self.runs) for one in self.run]
        elif grid:
            settings = {name: v for name, v in read_config(grid).items() if name != "search"}
            cells = plan(settings, self.runs, here=False)
            begun = [cell.folder for cell in cells if RunFolder(cell.folder).exists]
            found = [open_record(folder, self.runs) for folder in begun]
        else:
            found = Store(self.runs).select(self.where)
        wanted = [record for record in found if record.finished or not finished]
        damaged = [f"{r.name}: {r['progress']}" for r in found if r["status"] == "damaged"]
        if not wanted:
            which = f" with {self.where}" if self.where else f" of {grid}" if grid else ""
            reason = f"; {damaged[0]}" if damaged else ""
            kind = "finished " * finished
            raise StateError(f"there are no {kind}runs{which} in {self.runs}{reason}")
        for text in damaged if finished else ():
            warnings.warn(f"left out: {text}", stacklevel=2)
        return wanted


@dataclass(frozen=True)
class Form:
    """The format of a command's tables, and the file for them."""

    format_: Annotated[
        str,
        Option(
            "--format",
            parser=one_of("--format: ", "format", FORMATS),
            metavar="TEXT",
            help="terminal, markdown, csv, latex or json.",
        ),
    ] = "terminal"
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="File to write.")
    ] = None

    def publish(self, tables: Sequence[Table], notes: Sequence[str] = (), label: str = "") -> None:
        publish(tables, notes, self.format_, self.output, label)


@dataclass(frozen=True)
class Pace:
    """How often training is saved, and whether its progress is shown."""

    save_every: Annotated[float, Option(min=0, help="Seconds between saves in an epoch.")] = 30.0
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only results and errors.")] = False


MEASURE = "Time a step here, for the hours of --dry-run."


@dataclass(frozen=True)
class Saving(Pace):
    """Where runs are kept, and what of them; or whether they are planned only."""

    runs: Runs = Path("runs")
    keep: Keep = None
    log: Annotated[list[str] | None, Option(metavar="LOGGER", help=LOGGERS)] = None
    dry_run: Annotated[bool, Option("--dry-run", help="Show the plan and stop.")] = False
    measure: Annotated[bool, Option("--measure", help=MEASURE)] = False

    def check(self) -> None:
        """Refuse a logger that is not installed, before anything is done."""
        if self.measure and not self.dry_run:
            raise ConfigError("--measure times a step for the hours of a plan: add --dry-run")
        for kind in self.log or ():
            loggers.check(kind)


ON = "Where to run: local, ray or slurm; the latter need 'linsep\\[ray]', 'linsep\\[slurm]'."
ADDRESS = "Address of a Ray cluster. Default: start one here."
SLURM = "Slurm options: partition=gpu, timeout_min=240, ..."
WORKERS = "Parallel runs here. Default: one per core or GPU."
ENGINES = {"ray": "ray", "slurm": "submitit"}  # the package that each needs


@dataclass(frozen=True)
class Place(Saving):
    """Where the runs of a grid or a search are made and kept."""

    on: Annotated[str, Option(help=ON, rich_help_panel=PLACE)] = "local"
    address: Annotated[str | None, Option(help=ADDRESS, rich_help_panel=PLACE)] = None
    slurm: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help=SLURM, rich_help_panel=PLACE)
    ] = None
    workers: Annotated[
        int | None, Option(min=1, max=10_000, help=WORKERS, rich_help_panel=PLACE)
    ] = None
    per_gpu: Annotated[
        int, Option(min=1, max=1000, help="Parallel runs on each GPU.", rich_help_panel=PLACE)
    ] = 1

    def check(self) -> None:
        """Refuse an engine too that is not installed."""
        super().check()
        if self.on in ENGINES:
            needed(ENGINES[self.on], f"--on {self.on}")

    @property
    def here(self) -> bool:
        return self.on == "local"

    def slots(self, computes: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
        """One per GPU, or per core or cores that a run needs; a cluster may have GPUs unseen."""
        from ..storage.resumable import cores

        named = {compute.get("device", "auto") for compute in computes}
        if "cuda" not in named and not ("auto" in named and devices()[0] == "cuda"):
            threads = max(compute.get("threads") or 1 for compute in computes)
            return cpu_slots(self.workers or max(1, cores() // threads))
        import torch

        count = max(torch.cuda.device_count(), 0 if self.here else 1)
        found = gpu_slots(os.environ.get("CUDA_VISIBLE_DEVICES"), count, self.per_gpu)
        return found[: self.workers]

    def engine(self, slots: list[dict[str, str]]) -> Engine:
        example = "partition=gpu"
        given = [split(text, "--slurm", example) for text in self.slurm or ()]
        slurm = {name: parsed(value) for name, value in given}
        return open_engine(self.on, self.runs, slots=slots, address=self.address, slurm=slurm)
