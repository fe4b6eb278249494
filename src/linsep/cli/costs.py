"""What methods cost at the size of the paper's Split CIFAR-10, for `linsep list`.

Builds each with blank images of one pixel and counts; nothing is trained.
"""

from functools import cache

import torch

from ..data.images import Dataset, Images
from ..learning.cost import Cost
from ..prepare import prepare
from ..settings.config import Config

CLASSES, PER_CLASS, PER_TASK = 10, 5000, 2
MEANING = (
    "1.00x is fine-tuning: images through the nets, over a run of Split CIFAR-10 with 50 epochs "
    "and 200 stored images"
)


def of_method(name: str) -> str:
    """'3.00x'."""
    return f"{_cost(name).passes:.2f}x"


def of_term(name: str) -> str:
    """'+1.34x': what it adds to ER."""
    return f"{_cost(f'er+{name}').passes - _cost('er').passes:+.2f}x"


@cache
def _cost(method: str) -> Cost:
    config = Config(
        method=method, net="mlp", scenario={"per_task": PER_TASK}, training={"epochs": 50},
        memory={"rows": 200}, compute={"device": "cpu"},
    )  # fmt: skip
    return prepare(config, data=_blank(), lenient=True).cost()


@cache
def _blank() -> Dataset:
    def images(per_class: int) -> Images:
        y = torch.arange(CLASSES).repeat_interleave(per_class)
        return Images.of(torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(len(y), 1, 1, 1), y)

    return Dataset(images(PER_CLASS), images(1), tuple(map(str, range(CLASSES))), digest="blank")
