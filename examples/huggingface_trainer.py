"""Backward Feature Projection (BFP) in a Hugging Face Trainer.

    python examples/huggingface_trainer.py     # pip install transformers accelerate

A small ResNet learns ten kinds of clothes in three tasks, and replays ten images of each class
that it has seen. Each task is one `Trainer`, which knows the model of the task before. Runs this
small vary by several points from seed to seed; docs/evidence.md has reliable results.
"""

import copy
import tempfile
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor
from transformers import (
    PrinterCallback,
    ResNetConfig,
    ResNetForImageClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

import linsep
from linsep.data.standard import fashion_mini

TASKS = ((0, 1, 2), (3, 4, 5), (6, 7, 8, 9))  # the classes of each task
EARLIER = TASKS[0] + TASKS[1]
FEATURES, EPOCHS, STORED = 32, 3, 10  # STORED: images per class, to replay
DATA = fashion_mini()
SMALL = ResNetConfig(
    num_channels=1, embedding_size=8, hidden_sizes=[16, FEATURES], depths=[1, 1],
    layer_type="basic", num_labels=10,
)  # fmt: skip

Rows = list[dict[str, Tensor]]  # "pixel_values" (1, 28, 28) from 0 to 1, and "labels"


def frozen(model: ResNetForImageClassification) -> ResNetForImageClassification:
    """A copy that stays as it is."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def features(out: Any) -> Tensor:
    """What the head of a ResNet reads: the last feature map, pooled."""
    return out.hidden_states[-1].mean((2, 3))


class BFPTrainer(Trainer):
    """A Trainer that adds BFP to the model's own loss, from the second task on."""

    def __init__(
        self,
        model: ResNetForImageClassification,
        old: ResNetForImageClassification | None,
        weight: float,
        rows: Rows,
        args: TrainingArguments,
    ) -> None:
        self.old, self.weight = old, weight
        net = [p for name, p in model.named_parameters() if not name.startswith("bfp.")]
        # A part of the model: the Trainer zeroes the gradients of the model, not the optimiser's.
        model.bfp = self.bfp = linsep.BackwardProjection(FEATURES)
        groups = [
            {"params": net, "lr": args.learning_rate},
            {"params": list(self.bfp.parameters()), "lr": 0.1},
        ]
        descent = torch.optim.SGD(groups, momentum=0.9)
        super().__init__(model, args, train_dataset=rows, optimizers=(descent, None))
        self.remove_callback(PrinterCallback)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        out = model(**inputs, output_hidden_states=True)
        loss = out.loss
        if self.old is not None:
            before = self.old(inputs["pixel_values"], output_hidden_states=True)
            loss = loss + self.weight * self.bfp(features(out), features(before))
        return (loss, out) if return_outputs else loss


def learn(weight: float, seed: int) -> float:
    """The accuracy on earlier tasks after the last one; weight 0 is replay alone."""
    set_seed(seed)
    model = ResNetForImageClassification(SMALL)
    old: ResNetForImageClassification | None = None
    stored: Rows = []
    for classes in TASKS:
        new = images(classes)
        with tempfile.TemporaryDirectory() as folder:
            args = TrainingArguments(
                folder, num_train_epochs=EPOCHS, per_device_train_batch_size=64, seed=seed,
                learning_rate=0.05, lr_scheduler_type="constant", use_cpu=True, disable_tqdm=True,
                save_strategy="no", report_to="none",
            )  # fmt: skip
            BFPTrainer(model, old, weight, replaying(new, stored), args).train()
        old = frozen(model)
        stored += [row for c in classes for row in [r for r in new if r["labels"] == c][:STORED]]
    x = torch.stack([row["pixel_values"] for row in images(EARLIER, test=True)])
    y = torch.stack([row["labels"] for row in images(EARLIER, test=True)])
    with torch.no_grad():
        return (model.eval()(x).logits.argmax(1) == y).float().mean().item()


def images(classes: tuple[int, ...], *, test: bool = False) -> Rows:
    found = (DATA.test if test else DATA.train).select(classes)
    pairs = zip(found.pixels() / 255, found.y, strict=True)
    return [{"pixel_values": x, "labels": y} for x, y in pairs]


def replaying(new: Rows, stored: Rows) -> Rows:
    """The new images, and as many draws from the stored ones."""
    if not stored:
        return new
    return new + [stored[i] for i in torch.randint(len(stored), (len(new),)).tolist()]


if __name__ == "__main__":
    print("Accuracy on earlier tasks after the last one, mean and deviation of three seeds:")
    for name, weight in {"replay": 0.0, "replay and BFP": 1.0}.items():
        found = [100 * learn(weight, seed) for seed in range(3)]
        print(f"  {name:15} {mean(found):.1f} ± {stdev(found):.1f} %")
