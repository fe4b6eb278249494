"""Compare single training steps with those of the program of BFP's authors.

    python -m studies.authors_step CHECKOUT

CHECKOUT is a clone of their public repository; torchvision, tqdm and six must be installed. Their
model and ours start with equal weights, and every step gets the same batch and the same replay
batches, by ER and DER++, without and with BFP or its kin, on a narrow ResNet-18. Printed is the
largest difference of any weight or BatchNorm statistic: in the first task, after the first step of
the second, and after all steps of it.
"""

import argparse
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from rich import print as show
from torch import Tensor, nn

from linsep.data.images import Batch
from linsep.learning.method import BoundStage
from linsep.learning.projection import BackwardFeatures
from linsep.learning.run import Run
from linsep.methods import assemble
from linsep.nets.net import resnet18
from linsep.settings.catalogue import PRESETS
from linsep.testing import toy_run, toy_scenario

from .authors import import_paths

SHAPE, PER_TASK = (3, 32, 32), 2
METHODS = ("er", "er+bfp", "derpp", "derpp+fd", "derpp+bfp", "derpp+bfp2")
LAYERS = {"": "1", "fd": "0", "bfp": "1", "bfp2": "2"}  # of the map, as their flag counts them


class Replayed(nn.Module):
    """Takes the place of their buffer: hands out the replay batches that linsep made."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Batch] = []

    def is_empty(self) -> bool:
        return not self.waiting

    def get_data(self, size: int, transform: object = None) -> tuple[Any, ...]:
        batch = self.waiting.pop(0)
        return batch.x, batch.y, batch.logits, batch.y // PER_TASK

    def add_data(self, **columns: Tensor) -> None: ...


def their_model(method: str, width: int, classes: int, lr: float) -> Any:
    """Their model of a method, on their ResNet-18."""
    package: Any = import_module("models.bfp")
    nets: Any = import_module("backbone.ResNet18")
    base, _, added = method.partition("+")
    given = {
        "model": "bfp", "dataset": "seq-cifar10", "base_method": base, "buffer_size": 200,
        "alpha_bfp": float(bool(added)), "proj_type": LAYERS[added], "lr": lr,
    }  # fmt: skip
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    args = package.get_parser().parse_args([*words, "--final_feat"])
    args.N_CLASSES_PER_TASK = PER_TASK
    net = nets.ResNet(nets.BasicBlock, [2, 2, 2, 2], classes, width)
    model = package.Bfp(net, nn.functional.cross_entropy, args, None)
    model.buffer = Replayed()
    return model


def our_run(method: str, width: int, lr: float) -> Run:
    """Ours, by the preset `authors`, on images of noise."""
    options = PRESETS["authors"]["options"]
    made = assemble(method, {part: options[part] for part in method.split("+")})
    training = {"lr": lr, "momentum": 0.0, "batch_size": 8}
    return toy_run(
        made, training=training, scenario=toy_scenario(SHAPE),
        net=lambda: resnet18(SHAPE, width=width),
    )  # fmt: skip


def numbers(net: nn.Module) -> list[Tensor]:
    """Weights and BatchNorm's statistics, in the order of the layers."""
    return [*net.parameters(), *(b for b in net.buffers() if b.is_floating_point())]


def compared(method: str, width: int) -> list[float]:
    """The largest differences: in task 1, after the first step of task 2, after all of task 2."""
    base, _, added = method.partition("+")
    lr = 0.1 if base == "er" else 0.03
    run = our_run(method, width, lr)
    learner = run.learner
    theirs = their_model(method, width, learner.spec.classes, lr).to(learner.device)
    with torch.no_grad():
        for mine, other in zip(numbers(learner.net), numbers(theirs.net), strict=True):
            other.copy_(mine)
    sgd = torch.optim.SGD(theirs.net.parameters(), lr=lr)
    data = SimpleNamespace(get_optimizer_scheduler=lambda *_: (sgd, None))
    found: dict[int, list[float]] = {0: [], 1: []}
    original = learner.step

    def both(at: BoundStage, batch: Batch, replay: Mapping[str, Batch], epoch: int) -> Any:
        task = at.task.index
        if run.cursor == (task, 0, 0, 0):
            if task:
                theirs.end_task(data)
            theirs.begin_task(data, task)
            theirs.net.train()
            _same_map(learner.terms.get(added), theirs)
        order = "replay_logits", "replay_ce", added  # in which their program draws them
        theirs.buffer.waiting = [replay[name] for name in order if name in replay]
        result = original(at, batch, replay, epoch)
        theirs.observe(batch.x, batch.y, batch.x)
        pairs = zip(numbers(learner.net), numbers(theirs.net), strict=True)
        found[task].append(max(float((a - b).detach().abs().max()) for a, b in pairs))
        return result

    learner.step = both  # type: ignore[method-assign]
    for _ in run:
        if run.cursor.task == 2:
            break
    return [max(found[0]), found[1][0], max(found[1])]


@torch.no_grad()
def _same_map(term: object, theirs: Any) -> None:
    if isinstance(term, BackwardFeatures):
        mine, other = term.map_of("features").project, theirs.projector_manager.projectors[-1]
        for a, b in zip(mine.parameters(), other.parameters(), strict=True):
            b.copy_(a)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--width", type=int, default=8)
    asked = parser.parse_args()
    import_paths(asked.checkout.resolve())
    torch.set_num_threads(1)
    show(f"{'method':10} {'task 1':>10} {'first step':>12} {'task 2':>10}")
    for method in METHODS:
        with redirect_stdout(StringIO()):  # they announce their settings
            first, step, second = compared(method, asked.width)
        show(f"{method:10} {first:10.1e} {step:12.1e} {second:10.1e}")


if __name__ == "__main__":
    main()
