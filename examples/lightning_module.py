"""Backward Feature Projection (BFP) in a Lightning module.

    python examples/lightning_module.py        # pip install lightning

A small network learns ten kinds of clothes in three tasks, and replays ten images of each class
that it has seen. Each task is one `fit`: the module freezes itself at the end of it. Runs this
small vary by several points from seed to seed; docs/evidence.md has reliable results.
"""

import copy
import logging
import warnings
from statistics import mean, stdev

import lightning
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

import linsep
from linsep.data.standard import fashion_mini

TASKS = ((0, 1, 2), (3, 4, 5), (6, 7, 8, 9))  # the classes of each task
EARLIER = TASKS[0] + TASKS[1]
FEATURES, EPOCHS, STORED = 64, 3, 10  # STORED: images per class, to replay
DATA = fashion_mini()

Rows = Dataset[tuple[Tensor, ...]]  # an image (1, 28, 28) from 0 to 1, and its label


def frozen(net: nn.Module) -> nn.Module:
    """A copy that stays as it is."""
    return copy.deepcopy(net).eval().requires_grad_(False)


class Incremental(lightning.LightningModule):
    """A network that learns a task with each `fit`, and BFP between them."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, FEATURES), nn.ReLU()
        )
        self.head = nn.Linear(FEATURES, 10)
        self.weight = weight
        self.bfp = linsep.BackwardProjection(FEATURES)
        self.old: nn.Module | None = None  # the body of the previous task

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))

    def on_fit_start(self) -> None:
        self.bfp.reset()

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        x, y = batch
        features = self.body(x)
        loss = F.cross_entropy(self.head(features), y)
        if self.old is not None:
            loss = loss + self.weight * self.bfp(features, self.old(x))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """One optimiser for both, since Lightning steps only one by itself."""
        net = [*self.body.parameters(), *self.head.parameters()]
        groups = [{"params": net, "lr": 0.05}, {"params": self.bfp.parameters(), "lr": 0.1}]
        return torch.optim.SGD(groups, momentum=0.9)

    def on_fit_end(self) -> None:
        self.old = frozen(self.body)


def learn(weight: float, seed: int) -> float:
    """The accuracy on earlier tasks after the last one; weight 0 is replay alone."""
    lightning.seed_everything(seed, verbose=False)
    module = Incremental(weight)
    stored: list[Rows] = []
    for classes in TASKS:
        new = images(classes)
        rows: Rows = ConcatDataset([new, *drawn(stored, len(new))])
        trainer = lightning.Trainer(
            max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(module, DataLoader(rows, batch_size=64, shuffle=True))
        y = new.tensors[1]
        stored += [Subset(new, (y == c).nonzero()[:STORED, 0].tolist()) for c in classes]
    x, y = images(EARLIER, test=True).tensors
    with torch.no_grad():
        return (module.eval()(x).argmax(1) == y).float().mean().item()


def images(classes: tuple[int, ...], *, test: bool = False) -> TensorDataset:
    found = (DATA.test if test else DATA.train).select(classes)
    return TensorDataset(found.pixels() / 255, found.y)


def drawn(stored: list[Rows], count: int) -> list[Rows]:
    """So many draws from what is stored, if anything is."""
    if not stored:
        return []
    joined: ConcatDataset[tuple[Tensor, ...]] = ConcatDataset(stored)
    return [Subset(joined, torch.randint(len(joined), (count,)).tolist())]


if __name__ == "__main__":
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")  # about workers and log intervals
    print("Accuracy on earlier tasks after the last one, mean and deviation of five seeds:")
    for name, weight in {"replay": 0.0, "replay and BFP": 1.0}.items():
        found = [100 * learn(weight, seed) for seed in range(5)]
        print(f"  {name:15} {mean(found):.1f} ± {stdev(found):.1f} %")
