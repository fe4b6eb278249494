"""What the analyses of a finished run cost, beyond extracting its features.

Knows the analysis functions and makes features up: classes as noisy clusters in a space whose
directions fade, behind a ReLU, a little different after every task. Making them is not timed.
Prints nothing and judges nothing; the caller compares with the limits.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from linsep.analysis.cka import PairMoments
from linsep.analysis.probe import PORTIONS, probe_draws
from linsep.analysis.spectrum import Moments, proj_acc, spectrum

CPU_SECONDS = 60.0  # limits, at the default sizes
PEAK_MIB = 2048.0


@dataclass
class AnalysisCost:
    """CPU seconds by analysis, and the process's peak memory, features included."""

    tasks: int
    train_rows: int
    test_rows: int
    width: int
    seconds: dict[str, float] = field(default_factory=dict)
    peak_mib: float = 0.0

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.process_time() - start


@dataclass(frozen=True, eq=False)
class _Made:
    """Features of rows sorted by class after one task, and the head that goes with them."""

    train: Tensor  # (n, d)
    test: Tensor  # (m, d)
    weight: Tensor  # (C, d)


def analysis(
    *,
    tasks: int = 5,
    train_rows: int = 50_000,
    test_rows: int = 10_000,
    width: int = 512,
    classes: int = 10,
    draws: int = 3,
) -> AnalysisCost:
    """Spectrum, proj-acc, CKA and probes of a whole run, as `linsep analyse` asks for them.

    After every task: spectrum (both centrings) of the seen training rows, proj-acc of the seen
    test rows (Class-IL and Task-IL), CKA of seen and unseen training rows, and a probe of each seen
    task; at the end probes with every portion.
    """
    if train_rows % classes or test_rows % classes or classes % tasks:
        raise ValueError("rows must divide into classes and classes into tasks")
    cost = AnalysisCost(tasks, train_rows, test_rows, width)
    y, test_y = (torch.arange(n) // (n // classes) for n in (train_rows, test_rows))
    before: _Made | None = None
    for t in range(tasks):
        now = _make(t, y, test_y, width, classes)
        seen, test_seen = train_rows * (t + 1) // tasks, test_rows * (t + 1) // tasks
        with cost.timing("spectrum"):
            moments = Moments.of(now.train[:seen])
            bases = [spectrum(moments, centred=centred) for centred in (False, True)]
        labels = test_y[:test_seen]
        allowed = torch.arange(classes) < classes * (t + 1) // tasks
        own = labels[:, None] * tasks // classes == torch.arange(classes) * tasks // classes
        with cost.timing("proj-acc"):
            for basis in bases:
                for mask in (allowed, own):
                    proj_acc(now.test[:test_seen], labels, now.weight, None, basis, allowed=mask)
        if before is not None:
            with cost.timing("cka"):
                _similarities(before.train, now.train, train_rows * t // tasks, seen)
        with cost.timing("probe by task"):
            for i in range(t + 1):
                rows, test = (
                    slice(n * i // tasks, n * (i + 1) // tasks) for n in (train_rows, test_rows)
                )
                _probe_all(now.train[rows], y[rows], now.test[test], test_y[test], [1.0], 1)
        before = now
    assert before is not None
    with cost.timing("probe by portion"):
        _probe_all(before.train, y, before.test, test_y, None, draws)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    cost.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return cost


def _make(task: int, y: Tensor, test_y: Tensor, width: int, classes: int) -> _Made:
    g = torch.Generator().manual_seed(7)
    drift = torch.Generator().manual_seed(100 + task)
    fade = torch.arange(1, width + 1).float().rsqrt()  # (d,)
    centres = torch.randn(classes, width, generator=g) * fade
    mix = torch.randn(width, width, generator=g) / width**0.5
    mix += 0.3 * torch.randn(width, width, generator=drift) / width**0.5
    rows = []
    for labels in (y, test_y):
        z = torch.randn(len(labels), width, generator=g).mul_(2 * fade).add_(centres[labels])
        rows.append((z @ mix).relu_())
    means = (centres @ mix).relu()
    return _Made(rows[0], rows[1], means - means.mean(0))


def _similarities(before: Tensor, now: Tensor, old: int, seen: int) -> list[float]:
    """All three estimators of CKA on rows of earlier tasks and on those of the newest."""
    values = []
    for rows in (slice(0, old), slice(old, seen)):
        moments = PairMoments()
        moments.add(before[rows], now[rows])
        values += [moments.cka(e) for e in ("centred", "debiased", "printed")]
    return values


def _probe_all(
    z: Tensor, y: Tensor, test: Tensor, test_y: Tensor, portions: list[float] | None, draws: int
) -> None:
    chosen = PORTIONS if portions is None else portions
    for _ in probe_draws(z, y, test, test_y, portions=chosen, draws=draws):
        pass
