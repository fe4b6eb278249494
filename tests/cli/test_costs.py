"""`linsep list` shows what methods and add-ons cost: counted at the paper's size, and by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from linsep.data.images import Dataset, Images
from linsep.learning import run as running
from linsep.learning.cost import TRAINED, Meter
from linsep.methods import ADDONS, METHODS
from linsep.prepare import prepare
from linsep.settings.config import Config

CLASSES, PER_CLASS, EPOCHS = 10, 5000, 50
LATER = 4 / 5  # of the tasks have a past
SLOW = ("bic", "ewc", "gdumb", "lucir", "star", "transport", "ranpac", "acil")
NARROW = {name: {"width": 4} for name in ("ranpac", "acil")}


def blank() -> Dataset:
    """Images of one pixel; only their number matters."""

    def images(per_class: int) -> Images:
        y = torch.arange(CLASSES).repeat_interleave(per_class)
        return Images.of(torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(len(y), 1, 1, 1), y)

    return Dataset(images(PER_CLASS), images(1), tuple(map(str, range(CLASSES))), digest="blank")


class Apart(Meter):
    """Counts compute forward of each stage's newest step apart from those between steps."""

    between = 0.0

    def total(self) -> float:
        return self.run["forward"] + 2 * self.run["backward"] + self.run["frozen"]

    @contextmanager
    def counting(self) -> Iterator[None]:
        before = self.total()
        with super().counting():
            yield
        self.between += self.total() - before

    @contextmanager
    def step(self, *, noted: bool) -> Iterator[None]:
        before = self.total()
        with super().step(noted=noted):
            yield
        self.in_step, self.between = self.total() - before, self.between - self.total() + before


def counted(method: str, monkeypatch: pytest.MonkeyPatch) -> float:
    """Three steps of every stage, each as often as there are steps, and all that is between."""
    monkeypatch.setattr(running, "batches", lambda order, size: list(order.split(size))[:3])
    options = {name: NARROW[name] for name in method.split("+") if name in NARROW}
    settings: dict[str, Any] = {
        "options": options,
        "scenario": {"per_task": 2},
        "training": {"epochs": 1},
    }
    config = Config(
        method=method, net="mlp", memory={"size": 200}, compute={"device": "cpu"}, **settings
    )
    prepared = prepare(config, data=blank(), lenient=True)
    run = prepared.build()
    run.meter = meter = Apart(run.learner)
    steps, of_a_step = dict[tuple[int, ...], float](), dict[tuple[int, ...], float]()
    for event in run:
        if isinstance(event, running.StepEnd):
            place = event.cursor[:2]
            of_a_step[place] = meter.in_step
            if place not in steps:
                stage = run.learner.method.stages[place[1]]
                rows = len(run.learner.bind(run.scenario.tasks[place[0]], stage).rows)
                size = run.learner.training.batch_size
                steps[place] = rows / size * (stage.epochs or EPOCHS)
    whole = sum(steps[place] * compute for place, compute in of_a_step.items())
    return (whole + meter.between) / (TRAINED * EPOCHS * CLASSES * PER_CLASS)


def marked(names: Any) -> list[Any]:
    return [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in names]


@pytest.mark.parametrize("name", marked(METHODS))
def test_methods_cost_what_is_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert METHODS[name].compute == pytest.approx(counted(name, monkeypatch), abs=0.015)


@pytest.mark.parametrize("name", marked(ADDONS))
def test_add_ons_cost_what_is_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    added = counted(f"er+{name}", monkeypatch) - METHODS["er"].compute
    assert ADDONS[name].compute == pytest.approx(added, abs=0.015)


def test_the_figures_are_those_worked_out_by_hand() -> None:
    by_hand = {
        "ft": 1.0, "jt": 1.0, "er": 2.0, "derpp": 3.0,
        "agem": 1 + LATER,  # no reference in the first task
        "lwf": 1 + LATER / 3,
        "gdumb": 63 * 200 * 5 / (50 * 50_000),  # its own epochs, on the memory alone
    }  # fmt: skip
    assert {name: METHODS[name].compute for name in by_hand} == pytest.approx(by_hand, abs=0.01)
    assert ADDONS["bfp"].compute == pytest.approx(
        LATER * (1 + 2 / 3), abs=0.01
    )  # a draw, two frozen
