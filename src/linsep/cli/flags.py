"""The flags that several commands share, and how they become settings and a place to run."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typer import Argument, Option

from ..errors import ConfigError, unknown
from ..settings import sections
from ..settings.layers import assignment, merged, read

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


ConfigFile = Annotated[
    Path | None, Argument(metavar="[CONFIG.toml]", help="Settings file; flags override it.")
]
LISTS = "Values to try: seed=0..4, method=er,er+bfp, ..."
Over = Annotated[list[str] | None, Option(metavar="FIELD=VALUES", help=LISTS)]
LOGGERS = "Log to tensorboard, wandb or mlflow."
ANY = "Set a field: training.momentum=0.9, bfp.weight=3, ..."
Set = Annotated[list[str] | None, Option("--set", metavar="FIELD=VALUE", help=ANY)]
Runs = Annotated[Path, Option(help="Folder that holds the runs.")]
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


def settings_from(
    config: Path | None, given: Sequence[dict[str, Any]], set_: list[str] | None
) -> dict[str, Any]:
    """Merge a file's settings, those of flags, and --set, the later ones winning; drop [search]."""
    settings = merged(read(config) if config else {}, *given, *map(assignment, set_ or ()))
    settings.pop("search", None)
    return settings


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


@dataclass(frozen=True)
class Place:
    """Where the runs of a grid or a search are made."""

    on: Annotated[str, Option(help="Where to run: local, ray or slurm.")] = "local"
    address: Annotated[
        str | None, Option(help="Address of a Ray cluster. Default: start one here.")
    ] = None
    slurm: Annotated[
        list[str] | None,
        Option(metavar="NAME=VALUE", help="Slurm options: partition=gpu, timeout_min=240, ..."),
    ] = None
    workers: Annotated[
        int | None,
        Option(min=1, max=10_000, help="Parallel runs here. Default: one per core or GPU."),
    ] = None
    per_gpu: Annotated[int, Option(min=1, max=1000, help="Parallel runs on each GPU.")] = 1

    @property
    def here(self) -> bool:
        return self.on == "local"

    def slots(self, computes: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
        """One per GPU, or per core or cores that a run needs; a cluster may have GPUs unseen."""
        from ..grids.engines.local import cpu_slots, gpu_slots
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

        slurm = merged(*map(assignment, self.slurm or ()))
        return open_engine(self.on, runs, slots=slots, address=self.address, slurm=slurm)
