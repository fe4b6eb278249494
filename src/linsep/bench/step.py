"""What a whole training step costs beside its bare passes, and whether a large memory costs more.

The step is DER++ w/ BFP in the authors' form: the stream's batch and three draws through the net,
the old net on one draw and on the 64 rows of feature matching. The bare passes are the same
forwards and backwards on tensors that lie ready, and one SGD step. CPU time, in one process, on one
thread; rounds of the two take turns, and the least of each counts, since whatever else the machine
does can only add to it.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.optim import SGD

from ..compare.tables import Table
from ..learning.run import Run
from ..nets.net import Net, frozen
from ..prepare import prepare
from ..settings.config import Config

ROWS = 32


@dataclass(frozen=True)
class Figure:
    what: str
    ours: float  # CPU milliseconds a step
    against: float
    ratio: float
    bound: float  # that the ratio should stay within


def measure(repeats: int) -> list[Figure]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        narrow, wide = overhead(16, repeats, 1.15), overhead(64, max(4, repeats // 2), 1.05)
        return [narrow, wide, large_memory(repeats)]
    finally:
        torch.set_num_threads(threads)


def overhead(width: int, repeats: int, bound: float) -> Figure:
    run = _warm_run(width, 200)
    layout = torch.channels_last if run.learner.channels_last else torch.contiguous_format
    whole, bare = _stepper(run), bare_passes(run.learner.net, layout)
    ours, theirs = _paired(whole, bare, repeats)
    what = f"step / bare passes, ResNet-18 width {width}"
    return _figure(what, ours, theirs, bound)


def large_memory(repeats: int) -> Figure:
    small, large = (_stepper(_warm_run(16, rows, fill=True)) for rows in (200, 100_000))
    ours, theirs = _paired(large, small, repeats)
    return _figure("step at memory 100 000 / at 200, width 16", ours, theirs, 1.03)


def bare_passes(net: Net, layout: torch.memory_format) -> Callable[[], None]:
    """Four train-mode passes of 32 rows, the teacher's on 32 and 64, one SGD step."""
    net, teacher = frozen(net).requires_grad_(True).train(), frozen(net)
    optimizer = SGD(net.parameters(), lr=1e-4)
    shape = ROWS, 3, 32, 32
    batches = [torch.randn(shape).contiguous(memory_format=layout) for _ in range(4)]
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


def _warm_run(width: int, memory: int, fill: bool = False) -> Run:
    """In the second task, where every term speaks; `fill` gives the memory all its rows."""
    config = Config.model_validate(
        {
            "scenario": {"name": "blobs", "classes": 4, "train": 320, "size": 32, "channels": 3},
            "method": "derpp+bfp",
            "preset": "authors",
            "memory": memory,
            "net": {"name": "resnet18", "width": width},
            "training": {"epochs": 1000, "lr": 1e-4},
        }
    )
    run = prepare(config).build()
    learner = run.learner
    first, second = run.scenario.tasks
    learner.begin_task(first)
    if fill:
        table, offered = learner.memory, first.train
        while len(table) < table.capacity:
            rng = learner.streams.at("fill", len(table))
            table.observe(offered, torch.zeros(len(offered), learner.spec.classes), rng)
    else:
        learner.memory.observe(
            first.train,
            torch.zeros(len(first.train), learner.spec.classes),
            learner.streams.at("fill"),
        )
    learner.end_task(first)
    run.cursor = run.cursor._replace(task=1)
    learner.begin_task(second)
    run.cursor = run.cursor._replace(step=1)
    return run


def _stepper(run: Run) -> Callable[[], None]:
    events = iter(run)
    next(events)

    def step() -> None:
        next(events)

    return step


def _paired(a: Callable[[], None], b: Callable[[], None], rounds: int) -> tuple[list[float], ...]:
    """CPU seconds a step of both, round by round, after one round that does not count."""
    times: tuple[list[float], ...] = ([], [])
    gc.disable()
    try:
        for turn in range(rounds + 1):
            for kept, work in zip(times, (a, b), strict=True):
                start = time.process_time()
                work()
                if turn:
                    kept.append(time.process_time() - start)
    finally:
        gc.enable()
    return times


def _figure(what: str, ours: list[float], theirs: list[float], bound: float) -> Figure:
    least = min(ours), min(theirs)
    return Figure(what, 1000 * least[0], 1000 * least[1], least[0] / least[1], bound)


def table(figures: list[Figure]) -> Table:
    rows = [(f.what, f.ours, f.against, f"{f.ratio:.3f}", f"{f.bound:.2f}") for f in figures]
    columns = ("what", "ms CPU", "against, ms", "ratio", "bound")
    return Table(columns, rows, digits=1)
