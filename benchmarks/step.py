"""What a training step costs: beside its bare passes, with a large memory, with a cheaper BFP.

The step is DER++ + BFP in the authors' form: the stream's batch and three draws through the net,
the old net on one draw and on the 64 rows of feature matching. The bare passes are the same
forwards and backwards on tensors that lie ready, and one SGD step. CPU time, in one process, on one
thread; rounds of the two take turns, and the least of each counts.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.optim import SGD

import linsep
from linsep.compare.tables import Table
from linsep.learning.run import Event, Run
from linsep.nets.net import Net, frozen
from linsep.storage.resumable import threads

from .timing import Times, least

ROWS = 32
CHEAPER: Mapping[str, Mapping[str, Any]] = {
    "bfp.every=2": {"every": 2},
    "bfp.target=stored": {"target": "stored"},
    "a shared draw": {"replay_batches": "shared"},
    "a shared draw, bfp.on=replay, bfp.target=stored": {
        "replay_batches": "shared", "on": "replay", "target": "stored",
    },
}  # fmt: skip


class Ratio(NamedTuple):
    what: str
    ours: Times  # of a step
    against: Times
    bound: float  # that the ratio should stay within


def measure(rounds: int) -> list[Ratio]:
    with threads(1):
        return [
            overhead(16, rounds, 1.15),
            overhead(64, max(4, rounds // 2), 1.05),
            large_memory(16, (200, 100_000), rounds),
            *(cheaper(form, rounds) for form in CHEAPER),
        ]


def overhead(width: int, rounds: int, bound: float) -> Ratio:
    run = _warm_run(width, 200)
    layout = torch.channels_last if run.learner.channels_last else torch.contiguous_format
    ours, bare = least(iter(run).__next__, bare_passes(run.learner.net, layout), rounds=rounds)
    return Ratio(f"step / bare passes, ResNet-18 width {width}", ours, bare, bound)


def large_memory(width: int, rows: tuple[int, int], rounds: int) -> Ratio:
    small, large = least(*(iter(_warm_run(width, n)).__next__ for n in rows), rounds=rounds)
    return Ratio(f"step at memory {rows[1]} / at {rows[0]}, width {width}", large, small, 1.03)


def cheaper(form: str, rounds: int) -> Ratio:
    runs = [_warm_run(16, 200, "cnn", **settings) for settings in (CHEAPER[form], {})]
    less, plain = least(*(partial(_steps, iter(run)) for run in runs), rounds=rounds)
    return Ratio(f"10 steps with {form} / without, CNN width 16", less, plain, 1.0)


def _steps(run: Iterator[Event]) -> None:
    for _ in range(10):
        next(run)


def bare_passes(net: Net, layout: torch.memory_format) -> Callable[[], None]:
    """Four train-mode passes of 32 rows, the teacher's on 32 and 64, one SGD step."""
    net, teacher = frozen(net).requires_grad_(True).train(), frozen(net)
    optimizer = SGD(net.parameters(), lr=1e-4)
    batches = [torch.randn(ROWS, 3, 32, 32).contiguous(memory_format=layout) for _ in range(4)]
    both, y = torch.cat(batches[2:]), torch.zeros(ROWS, dtype=torch.int64)

    def step() -> None:
        optimizer.zero_grad()
        loss = torch.stack([F.cross_entropy(net(x).logits, y) for x in batches]).sum()
        with torch.no_grad():
            teacher(batches[1])
            teacher(both)
        loss.backward()
        optimizer.step()

    return step


def _warm_run(
    width: int, rows: int, net: str = "resnet18", replay_batches: str = "fresh", **bfp: object
) -> Run:
    """A run in its second task, where every term is active, with a full memory."""
    config = linsep.Config(
        scenario={"name": "blobs", "classes": 4, "train": 320, "image_size": 32, "channels": 3},
        net={"name": net, "width": width}, training={"epochs": 1000, "lr": 1e-4},
        method="derpp+bfp", preset="authors",
        memory={"size": rows, "replay_batches": replay_batches},
        options={"bfp": bfp},
    )  # fmt: skip
    run = linsep.build(config)
    learner = run.learner
    first, second = run.scenario.tasks
    learner.begin_task(first)
    table, logits = learner.memory, torch.zeros(len(first.train), learner.spec.classes)
    while len(table) < table.capacity:
        table.observe(first.train, logits, learner.randomness.at("fill", len(table)))
    learner.end_task(first)
    learner.begin_task(second)
    run.cursor = run.cursor._replace(task=1, step=1)
    return run


def table(found: list[Ratio]) -> Table:
    rows = [
        (what, 1000 * a.cpu, 1000 * b.cpu, f"{a.cpu / b.cpu:.3f}", f"{bound:.2f}")
        for what, a, b, bound in found
    ]
    return Table(("what", "ms CPU", "against, ms", "ratio", "bound"), rows, digits=1)
