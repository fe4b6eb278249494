"""A folder in which the documented commands work: small runs, small data, little training.

Published data sets are replaced by noise of the same shape and classes, and a command that would
train or start workers ends where that would begin, with its settings resolved and its net built.
"""

import shutil
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import linsep
from linsep.data import scenarios
from linsep.data.images import Dataset
from linsep.grids.plan import plan
from linsep.nets.backbones import make
from linsep.settings import sections
from linsep.settings.layers import read
from linsep.storage.session import Session
from tests.helpers.made_data import write_image

ROOT = Path(__file__).parents[2]
CONFIGS = next(f for f in (ROOT / "configs", ROOT / "src/linsep/configs") if f.is_dir())
PUBLISHED = {  # classes and shape
    "split-mnist": (10, 1, 28, 28), "split-fashion-mnist": (10, 1, 28, 28),
    "split-cifar10": (10, 3, 32, 32), "split-cifar100": (100, 3, 32, 32),
    "split-tinyimagenet": (200, 3, 64, 64), "grocery": (81, 3, 224, 224),
}  # fmt: skip
WEIGHTS = "resnet18.safetensors"
CODE = """
import torch
from torch.utils.data import TensorDataset

def make():
    images = torch.randint(0, 256, (24, 3, 16, 16), dtype=torch.uint8)
    return TensorDataset(images, torch.arange(24) % 4)
"""
SMALL: dict[str, Any] = {
    "net": "cnn", "training": {"epochs": 1}, "compute": {"device": "cpu", "threads": 1},
}  # fmt: skip
_load = scenarios.load


class Planned(Exception):  # noqa: N818 - it is not an error
    """Training, a grid's workers or drawing would have started now."""


def noise(wanted: sections.Scenario, progress: Any = None) -> Dataset:
    """What `scenarios.load` would read if the published images were here: noise of their shape."""
    if wanted.name not in PUBLISHED:
        return _load(wanted, progress)
    classes, *shape = PUBLISHED[wanted.name]
    y = np.arange(6 * classes) % classes
    x = np.random.default_rng(0).integers(0, 256, (len(y), *shape), dtype=np.uint8)
    names = [f"thing {c}" for c in range(classes)]
    held = 2 * classes
    return linsep.from_arrays(x[held:], y[held:], x[:held], y[:held], names=names)


def with_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scenarios, "load", noise)


def without_training(patch: pytest.MonkeyPatch) -> None:
    """Stop where training, workers or a report's drawings would start.

    A GPU is taken to be there until then. tests/report draws what is left out here.
    """

    def opened(session: Session) -> NoReturn:
        if session.prepared.config.compute.device == "cpu":
            session.prepared.learner()
        raise Planned

    def planned(*given: object, **options: object) -> NoReturn:
        raise Planned

    with_noise(patch)
    patch.setattr(Session, "_open", opened)
    for slow in ("cli.flags.open_engine", "report.page.page", "report.page.figures"):
        patch.setattr(f"linsep.{slow}", planned)
    for place in ("resolve", "cli.flags"):
        patch.setattr(f"linsep.{place}.devices", lambda: ["cpu", "cuda"])


def build_stage(folder: Path) -> None:
    """Finished runs, image folders, a table, arrays and code, as the pages name them."""
    runs = folder / "runs"
    fashion = {"name": "fashion-mini", "per_class": 8, "test_per_class": 4}
    for method in ("er", "derpp", "derpp+bfp"):
        linsep.train({**SMALL, "scenario": fashion, "method": method, "memory": 100}, runs=runs)
    cifar = {**SMALL, "scenario": "split-cifar10", "memory": 200}
    linsep.train({**cifar, "method": "derpp"}, runs=runs)
    for weight in (1.0, 10.0):
        strong = {**cifar, "method": "derpp+bfp", "bfp": {"weight": weight}}
        made = linsep.train(strong, runs=runs)
    shutil.copytree(CONFIGS, folder / "configs")
    results = folder.with_name(f"{folder.name}-results")  # many files, which pages only read
    (folder / "results").symlink_to(shutil.copytree(ROOT / "results", results))
    (folder / "studies").symlink_to(ROOT / "studies")
    grid = plan(read(CONFIGS / "fashion-mini.toml"), runs, here=False)  # one of its runs is made
    shutil.copytree(made.folder, grid[0].folder)
    lines = ["file,label,task,split"]
    for i in range(32):
        part, kind = ("test" if i % 4 == 0 else "train"), ("cat", "dog", "elk", "fox")[i // 8]
        write_image(folder / "photos" / part / kind / f"{i}.png", i, (70, 66))
        lines.append(f"photos/{part}/{kind}/{i}.png,{kind},{i // 16},{part}")
    (folder / "list.csv").write_text("\n".join(lines))
    renamed = "photo,category,month,split"
    (folder / "products.csv").write_text("\n".join([renamed, *lines[1:]]))
    x = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(folder / "digits.npz", x=x, y=np.arange(40) % 4)
    (folder / "mine.py").write_text(CODE)
    body = make("resnet18", (1, 28, 28), {"width": 64, "stem": "auto", "last_relu": True}, ())
    save_file(body.state_dict(), folder / WEIGHTS)
    first = nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU()  # of your-net.md's `make`
    mine = nn.Sequential(*first, nn.Conv2d(16, 32, 3), nn.ReLU())
    torch.save(mine.state_dict(), folder / "body.pt")
