"""The flags that several commands share, and how they become settings and a place to run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from ..errors import ConfigError, unknown
from ..settings import sections
from ..settings.layers import assignment, merged, read

if TYPE_CHECKING:
    from ..grids.engines import Engine


def one_of(flag: str, kind: str, allowed: Sequence[str]) -> Callable[[str], str]:
    """A parser of one of some words; a misspelt one is answered with the closest."""

    def parse(value: str) -> str:
        if value not in allowed:
            raise ConfigError(f"{flag}{unknown(kind, value, allowed)}")
        return value

    return parse


ConfigFile = Annotated[
    Path | None, typer.Argument(metavar="[CONFIG.toml]", help="Settings; flags override them.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Any field: training.momentum=0.9, bfp.weight=3, ..."
    ),
]
Runs = Annotated[Path, typer.Option(help="Folder that holds the runs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and errors.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")]

# --- one run --------------------------------------------------------------------------------------

Scenario = Annotated[str | None, typer.Option(help="What to learn: `linsep list scenarios`.")]
Method = Annotated[str | None, typer.Option(help="How to learn it: er, derpp, derpp+bfp, ...")]
Memory = Annotated[int | None, typer.Option(help="Images kept of earlier tasks.")]
Seed = Annotated[int | None, typer.Option(help="Seed of everything random.")]
Epochs = Annotated[int | None, typer.Option(help="Epochs per task.")]
Rate = Annotated[float | None, typer.Option("--lr", help="Learning rate.")]
BatchSize = Annotated[int | None, typer.Option(help="Images per step.")]
Net = Annotated[str | None, typer.Option(help="cnn, mlp, resnet18, timm/..., ...")]
Width = Annotated[int | None, typer.Option(help="Width of the net; ResNet-18's own is 64.")]
Data = Annotated[str | None, typer.Option(help="Folder or file that holds the images.")]
PerClass = Annotated[int | None, typer.Option(help="Train on fewer images of each class.")]
Preset = Annotated[str | None, typer.Option(help="paper (the text) or authors (their program).")]
PaperCell = Annotated[
    str | None,
    typer.Option(metavar="CELL", help="The paper's hyper-parameters: split-cifar100/500/lucir"),
]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads of a run; 1 if left out.")]
SaveEvery = Annotated[float, typer.Option(min=0, help="Seconds between saves within an epoch.")]
Keep = Annotated[
    sections.Keep | None,
    typer.Option(
        metavar="WHAT",
        parser=one_of("--keep: ", "kind", get_args(sections.Keep)),
        help="Snapshots for `linsep analyse`: end, tasks or epochs. If left out, of all tasks for "
        "small nets and of the end for others.",
    ),
]
Logs = Annotated[
    list[str] | None, typer.Option(metavar="LOGGER", help="tensorboard, wandb or mlflow.")
]

# --- many runs ------------------------------------------------------------------------------------

Over = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD=VALUES", help="seed=0..4, method=er,er+bfp, memory=200,500, ..."),
]
On = Annotated[str, typer.Option(help="Where to run: local, ray or slurm.")]
Address = Annotated[
    str | None, typer.Option(help="Address of a Ray cluster; if left out, one is started here.")
]
Slurm = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Of Slurm jobs: partition=gpu, timeout_min=240, ..."),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, max=10_000, help="Runs at once on this machine; if left out, one per core or GPU."
    ),
]
PerGpu = Annotated[int, typer.Option(min=1, max=1000, help="Runs at once on each GPU.")]


def settings_from(
    config: Path | None, given: Sequence[dict[str, Any]], set_: list[str] | None
) -> dict[str, Any]:
    """A file's settings, then those of flags, then --set; a [search] table is another's."""
    settings = merged(read(config) if config else {}, *given, *map(assignment, set_ or ()))
    settings.pop("search", None)
    return settings


@dataclass(frozen=True)
class Place:
    """Where the runs of a grid or a search are made, as flags put it."""

    on: str
    address: str | None
    slurm: list[str] | None
    workers: int | None
    per_gpu: int

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
