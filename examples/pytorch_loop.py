"""Backward Feature Projection (BFP) in a plain PyTorch loop.

    python examples/pytorch_loop.py

A small network learns ten kinds of clothes in three tasks, and replays ten images of each class
that it has seen. The lines marked `BFP` are all that has to be added to such a loop. Runs this
small vary by several points from seed to seed; docs/evidence.md has reliable results.
"""

import copy
from statistics import mean, stdev

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import linsep
from linsep.data.standard import fashion_mini

TASKS = ((0, 1, 2), (3, 4, 5), (6, 7, 8, 9))  # the classes of each task
EARLIER = TASKS[0] + TASKS[1]
FEATURES, EPOCHS, STORED = 64, 3, 10  # STORED: images per class, to replay
DATA = fashion_mini()

Rows = tuple[Tensor, Tensor]  # images (n, 1, 28, 28) from 0 to 1, labels (n,)


def frozen(net: nn.Module) -> nn.Module:
    """A copy that stays as it is."""
    return copy.deepcopy(net).eval().requires_grad_(False)


def learn(weight: float, seed: int) -> float:
    """The accuracy on earlier tasks after the last one; weight 0 is replay alone."""
    torch.manual_seed(seed)
    body = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, FEATURES), nn.ReLU()
    )
    head = nn.Linear(FEATURES, 10)
    stored: Rows | None = None
    bfp = linsep.BackwardProjection(FEATURES)  # BFP
    old: nn.Module | None = None  # BFP: the network of the previous task
    for classes in TASKS:
        new = images(classes)
        batches = DataLoader(TensorDataset(*replaying(new, stored)), batch_size=64, shuffle=True)
        descent = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
        bfp.reset()  # BFP: a new map for each task, with an optimiser of its own
        own = bfp.optimizer()
        assert own is not None
        for _ in range(EPOCHS):
            for x, y in batches:
                features = body(x)
                loss = F.cross_entropy(head(features), y)
                if old is not None:
                    loss = loss + weight * bfp(features, old(x))  # BFP
                descent.zero_grad()
                own.zero_grad()  # BFP
                loss.backward()
                descent.step()
                own.step()  # BFP
        old = frozen(body)  # BFP
        stored = storing(new, stored)
    x, y = images(EARLIER, test=True)
    with torch.no_grad():
        return (head(body(x)).argmax(1) == y).float().mean().item()


# --- the images, and the few that are replayed ---------------------------------------------------


def images(classes: tuple[int, ...], *, test: bool = False) -> Rows:
    found = (DATA.test if test else DATA.train).select(classes)
    return found.pixels() / 255, found.y


def replaying(new: Rows, stored: Rows | None) -> Rows:
    """The new images, and as many draws from the stored ones."""
    if stored is None:
        return new
    drawn = torch.randint(len(stored[1]), (len(new[1]),))
    return torch.cat([new[0], stored[0][drawn]]), torch.cat([new[1], stored[1][drawn]])


def storing(new: Rows, stored: Rows | None) -> Rows:
    """The stored images, and the first few of each new class."""
    x, y = new
    first = torch.cat([(y == c).nonzero()[:STORED, 0] for c in y.unique()])
    if stored is None:
        return x[first], y[first]
    return torch.cat([stored[0], x[first]]), torch.cat([stored[1], y[first]])


if __name__ == "__main__":
    print("Accuracy on earlier tasks after the last one, mean and deviation of five seeds:")
    for name, weight in {"replay": 0.0, "replay and BFP": 1.0}.items():
        found = [100 * learn(weight, seed) for seed in range(5)]
        print(f"  {name:15} {mean(found):.1f} ± {stdev(found):.1f} %")
