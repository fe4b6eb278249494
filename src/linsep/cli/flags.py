"""The flags that several commands share, and the place to run that some of them describe.

The flag of a setting has the setting's short name, and its description as help; `settings.layers`
and `settings.sections` are where these are written.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typer import Argument, Option
from typer.core import TyperCommand

from ..errors import ConfigError, unknown
from ..optional import needed
from ..settings import sections
from ..settings.config import described
from ..settings.layers import full_name, parsed, split

if TYPE_CHECKING:
    from ..grids.engines import Engine


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer in which a parameter that is a dataclass stands for a flag per field."""
    groups: dict[str, Any] = {}
    flags: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            flags += inspect.signature(groups[name], eval_str=True).parameters.values()
        else:
            flags.append(parameter)

    @wraps(command)
    def ungrouped(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    keywords = [flag.replace(kind=inspect.Parameter.KEYWORD_ONLY) for flag in flags]
    vars(ungrouped)["__signature__"] = inspect.Signature(keywords)  # where typer reads the flags
    ungrouped.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return ungrouped


def one_of(flag: str, kind: str, allowed: Sequence[str]) -> Callable[[str], str]:
    """Return a parser that accepts these words and suggests the closest for a misspelt one."""

    def parse(value: str) -> str:
        if value not in allowed:
            raise ConfigError(f"{flag}{unknown(kind, value, allowed)}")
        return value

    return parse


def typeless(options: list[Any]) -> list[Any]:
    """The same options, of which those that take no value show no type in the help."""
    for option in options:
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    return options


class Command(TyperCommand):
    """A command that refuses a flag given twice, where the last would silently win."""

    def get_params(self, ctx: Any) -> list[Any]:
        return typeless(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = [word.partition("=")[0] for word in args if word.startswith("-")]
        for option in self.params:
            single = not getattr(option, "multiple", True) and not getattr(option, "is_flag", True)
            if single and sum(word in option.opts for word in words) > 1:
                raise ConfigError(f"{option.opts[0]} is given twice: give it once")
        return super().parse_args(ctx, args)


SETTINGS, PLACE = "Settings", "Where to run"  # panels of the help


def of(name: str) -> Any:
    """The option of a setting."""
    return Option(help=described(full_name(name)), rich_help_panel=SETTINGS)


FILE = "Settings to start from: a name of `linsep list configs` or a .toml file. Flags override it."
ConfigFile = Annotated[str | None, Argument(metavar="CONFIG", help=FILE)]
LISTS = "Values to try: seed=0..4, lr=0.03,0.1, method=er,er+bfp, ..."
Over = Annotated[
    list[str] | None, Option(metavar="SETTING=VALUES", help=LISTS, rich_help_panel=SETTINGS)
]
LOGGERS = "Log to tensorboard, wandb or mlflow; needs 'linsep\\[tensorboard]' and so on."
ANY = "Set anything: training.momentum=0.9, bfp.weight=3, ...; see `linsep list settings`."
Set = Annotated[
    list[str] | None, Option("--set", metavar="SETTING=VALUE", help=ANY, rich_help_panel=SETTINGS)
]
Runs = Annotated[Path, Option(help="Folder that holds the runs.")]
Parts = Annotated[
    list[str] | None, Option("--part", metavar="NAME", help="Run only this part of the file.")
]
DryRun = Annotated[bool, Option("--dry-run", help="Show the plan and stop.")]
ALSO = "Folder of finished runs that need not be repeated; nothing is written there."
Also = Annotated[list[Path] | None, Option("--also", metavar="DIR", help=ALSO)]
Keep = Annotated[
    sections.Keep | None,
    Option(
        metavar="WHAT",
        parser=one_of("--keep: ", "kind", get_args(sections.Keep)),
        help="Snapshots to keep for `linsep analyse`: end, tasks or epochs. Default: tasks for "
        "nets of up to 2 million parameters, else end.",
    ),
]


CELL = "The paper's hyper-parameters for a cell of its tables: split-cifar100/500/lucir"
WIDTH = "Width of the net, for nets that have one; ResNet-18's own is 64."


@dataclass(frozen=True)
class Question:
    """The settings by which people tell experiments apart."""

    scenario: Annotated[str | None, of("scenario")] = None
    method: Annotated[str | None, of("method")] = None
    memory: Annotated[int | None, of("memory")] = None
    preset: Annotated[str | None, of("preset")] = None
    paper: Annotated[str | None, Option(metavar="CELL", help=CELL, rich_help_panel=SETTINGS)] = None


@dataclass(frozen=True)
class Details:
    """The other settings that have a flag."""

    seed: Annotated[int | None, of("seed")] = None
    epochs: Annotated[int | None, of("epochs")] = None
    lr: Annotated[float | None, of("lr")] = None
    batch_size: Annotated[int | None, of("batch_size")] = None
    net: Annotated[str | None, of("net")] = None
    width: Annotated[int | None, Option(help=WIDTH, rich_help_panel=SETTINGS)] = None
    data: Annotated[str | None, of("data")] = None
    per_task: Annotated[int | None, of("per_task")] = None
    per_class: Annotated[int | None, of("per_class")] = None
    test_per_class: Annotated[int | None, of("test_per_class")] = None
    device: Annotated[str | None, of("device")] = None
    threads: Annotated[int | None, of("threads")] = None


@dataclass(frozen=True)
class Labels:
    """What the runs and their data are called. Giving a run another name does not repeat it."""

    name: Annotated[str | None, Option(help="Name for tables and reports: 'ours'.")] = None
    tag: Annotated[
        list[str] | None,
        Option(metavar="TAG", help="Tag to find it by: --where tag=TAG. May be repeated."),
    ] = None
    data_name: Annotated[
        str | None, Option(help="Name of your data in tables and reports: 'product photos'.")
    ] = None

    @property
    def settings(self) -> dict[str, Any]:
        given = {"name": self.name, "tags": self.tag, "data_name": self.data_name}
        found = {name: value for name, value in given.items() if value is not None}
        data_name = found.pop("data_name", None)
        return found if data_name is None else found | {"scenario": {"data_name": data_name}}


@dataclass(frozen=True)
class Saving:
    """Where runs are kept, how often they are saved, and whether progress is shown."""

    runs: Runs = Path("runs")
    save_every: Annotated[float, Option(min=0, help="Seconds between saves in an epoch.")] = 30.0
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only results and errors.")] = False


ON = "Where to run: local, ray or slurm; the latter need 'linsep\\[ray]', 'linsep\\[slurm]'."
ADDRESS = "Address of a Ray cluster. Default: start one here."
SLURM = "Slurm options: partition=gpu, timeout_min=240, ..."
WORKERS = "Parallel runs here. Default: one per core or GPU."
ENGINES = {"ray": "ray", "slurm": "submitit"}  # the package that each needs


@dataclass(frozen=True)
class Place:
    """Where the runs of a grid or a search are made."""

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
        """Refuse an engine that is not installed, before anything is done."""
        if self.on in ENGINES:
            needed(ENGINES[self.on], f"--on {self.on}")

    @property
    def here(self) -> bool:
        return self.on == "local"

    def slots(self, computes: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
        """One per GPU, or per core or cores that a run needs; a cluster may have GPUs unseen."""
        from ..grids.engines import cpu_slots, gpu_slots
        from ..resolve import devices
        from ..storage.environment import cores

        named = {compute.get("device", "auto") for compute in computes}
        if "cuda" not in named and not ("auto" in named and devices()[0] == "cuda"):
            threads = max(compute.get("threads") or 1 for compute in computes)
            return cpu_slots(self.workers or max(1, cores() // threads))
        import torch

        count = max(torch.cuda.device_count(), 0 if self.here else 1)
        found = gpu_slots(os.environ.get("CUDA_VISIBLE_DEVICES"), count, self.per_gpu)
        return found[: self.workers]

    def engine(self, runs: Path, slots: list[dict[str, str]]) -> Engine:
        from ..grids.engines import open_engine

        example = "partition=gpu"
        given = [split(text, "--slurm", example) for text in self.slurm or ()]
        slurm = {name: parsed(value) for name, value in given}
        return open_engine(self.on, runs, slots=slots, address=self.address, slurm=slurm)
