"""Run the program of BFP's authors end to end on Split CIFAR-10, to compare it with linsep's runs.

    python -m studies.authors CHECKOUT --data DIR --method derpp+bfp --seed 0 -o derpp+bfp-0.json

CHECKOUT is a clone of their public repository and DIR holds cifar-10-batches-py; torchvision, tqdm
and six must be installed. Of their program nothing is changed but what a comparison without a GPU
asks for: the width of ResNet-18, the number of epochs, no logging, no final fine-tuning, and images
loaded in the process itself. The file has the accuracies after each task and the settings.
"""

import argparse
import json
import os
import sys
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch

UNUSED = ("wandb", "quadprog", "seaborn", "onedrivedownloader", "kornia")  # by what is run here
METHODS = {"er": "er", "er+bfp": "er", "derpp": "derpp", "derpp+bfp": "derpp"}


class Recorder:
    """Takes the place of their logger: keeps the accuracies after each task."""

    def __init__(self, *_: Any) -> None:
        self.rows: list[tuple[list[float], list[float]]] = []

    def log_accuracy(self, accuracies: Any, _: Any, type: str = "") -> None:
        if type == "end_task":
            class_il, task_il = (list(map(float, row)) for row in accuracies)
            self.rows.append((class_il, task_il))

    def log_loss(self, loss: float) -> None: ...

    def close(self) -> None: ...


def run(checkout: Path, data: Path, method: str, seed: int, width: int, epochs: int) -> Recorder:
    """Train by their `main` and return what it recorded."""
    import_paths(checkout)
    program: Any = import_module("utils.main")
    recorder = Recorder()
    program.WandbLogger = lambda *_: recorder
    program.FintuneCallback = lambda *_: MagicMock()
    _narrow(width)
    _in_process()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "CIFAR10").symlink_to(data.resolve())
        given = {
            "model": "bfp", "dataset": "seq-cifar10", "base_method": METHODS[method],
            "buffer_size": 200, "alpha_bfp": float(method.endswith("+bfp")), "n_epochs": epochs,
            "seed": seed, "base_path": folder, "ckpt_folder": folder,
        }  # fmt: skip
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        args = program.process_args(program.parse_args([*words, "--final_feat"]))
        torch.set_num_threads(1)  # they ask for four
        program.main(args)
    return recorder


def import_paths(checkout: Path) -> None:
    """Let their modules be found, and stand in for packages that nothing here uses."""
    os.chdir(checkout)  # where they look for their models
    sys.path[:0] = [str(checkout / part) for part in ("", "datasets", "backbone", "models")]
    for name in UNUSED:  # installed or not: a real wandb would want to be told where to log
        sys.modules[name] = MagicMock(__spec__=None)
    for operator in ("nms", "qnms"):  # torchvision's compiled part does not load beside CPU builds
        torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")


def _narrow(width: int) -> None:
    """ResNet-18 of another width; theirs is 64."""
    nets: Any = import_module("backbone.ResNet18")
    sets: Any = import_module("datasets.seq_cifar10")
    sets.resnet18 = lambda classes, args: nets.ResNet(
        nets.BasicBlock, [2, 2, 2, 2], classes, width, norm=args.backbone_norm
    )


def _in_process() -> None:
    """No worker processes, and the files as they are."""
    loaders: Any = import_module("datasets.utils.continual_dataset")
    plain = loaders.DataLoader
    loaders.DataLoader = lambda *args, num_workers=0, **kwargs: plain(*args, **kwargs)
    import_module("torchvision.datasets").CIFAR10._check_integrity = lambda _: True
    import_module("torchvision.datasets.cifar").check_integrity = lambda *_: True  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--method", choices=METHODS, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    output = asked.output.resolve()
    settings = {name: getattr(asked, name) for name in ("method", "seed", "width", "epochs")}
    recorder = partial(run, asked.checkout.resolve(), asked.data.resolve())(**settings)
    class_il, task_il = zip(*recorder.rows, strict=True)
    content = {**settings, "torch": torch.__version__, "class_il": class_il, "task_il": task_il}
    output.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
