"""A classifier as one file that other programs can run: ONNX, or torch.export's .pt2.

Bytes (n, h, w, c) go in, calibrated probabilities come out, a column for each of `classes_`, whose
names are in the file, and the novelty of each row. Resizing and normalisation are inside. Tables go
in as float32 (n, d).

Predictions are restated in operations that both formats have; tests hold them to the classifier's.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.torch_version import TorchVersion

from .. import __version__
from ..data.augment import Augment, Columns
from ..errors import ConfigError, unknown
from ..learning.model import Aligned, LinearRule, NearestMean, Predictor
from ..learning.statistics import RandomRidge
from ..learning.transport import Transported
from ..nets.backbones import Wrapped
from ..nets.heads import CorrectedHead
from ..nets.net import Net, Output
from ..optional import needed
from ..storage import files
from .course import Course
from .novelty import Known

SUFFIXES = (".onnx", ".pt2")
ONNX_FROM = "2.7"  # the torch whose exporter knows what `square` does
LARGEST = 2**31 - 1  # batch, height and width
OPSET = 20
INPUT, OUTPUTS = "images", ("probabilities", "novelty")
ONE = 2**22  # what Pillow writes a weight of 1 as
METADATA = "classes"  # the labels as JSON, in the order of the output's columns


def export(
    course: Course, path: Path, known: Known | None, more: Mapping[str, str], resizes: bool
) -> None:
    """Write a classifier to a file, in the format of its suffix.

    Novelty is by distance from what is `known`; without, by energy. `more` is put into the file
    beside the names of the classes. What `resizes` takes images of any size.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"{path}: {unknown('suffix', path.suffix, SUFFIXES)}")
    if path.suffix == ".onnx":
        for package in ("onnx", "onnxscript"):
            needed(package, "export to ONNX")
        if TorchVersion(torch.__version__) < ONNX_FROM:
            raise ConfigError(
                f"export to ONNX needs torch {ONNX_FROM} or newer, not {torch.__version__}: "
                "pip install -U 'linsep[onnx]'"
            )
    model = Predicting(course, known, resizes).eval()
    told = {
        METADATA: json.dumps(course.classes.tolist(), default=str),
        "linsep": __version__,
        "method": course.config.method,
        "lessons": str(len(course.history)),
        "learned": course.history[-1]["when"],
        "novelty": "energy" if known is None else "distance",
        "reads": json.dumps([*course.shape]),
        **more,
    }
    write = _onnx if path.suffix == ".onnx" else _pt2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        content = write(model, told)
    files.write(path, content)


def _example(model: Predicting) -> tuple[Tensor, tuple[dict[int, Any]]]:
    """An input like those to come, and which of its sides may differ."""
    # With a largest size, without which torch 2.6 finds one that the model cannot take.
    sides: dict[int, Any] = {0: torch.export.Dim("n", max=LARGEST)}
    if model.table:
        return torch.zeros(2, model.table), (sides,)
    height, width = model.size
    if model.side is not None:
        sides |= {i: torch.export.Dim(side, min=1, max=LARGEST) for i, side in ((1, "h"), (2, "w"))}
        height, width = model.side + 3, model.side + 5
    return torch.zeros(2, height, width, model.channels, dtype=torch.uint8), (sides,)


def _onnx(model: Predicting, told: dict[str, str]) -> bytes:
    example, sides = _example(model)
    log = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = log.level
    log.setLevel(logging.ERROR)  # it tells of every package that is not installed
    try:
        made = torch.onnx.export(
            model, (example,), dynamic_shapes=sides, input_names=[INPUT], output_names=OUTPUTS,
            opset_version=OPSET, dynamo=True, verbose=False, external_data=False,
        )  # fmt: skip
    finally:
        log.setLevel(level)
    assert made is not None
    made.model.metadata_props.update(told)
    return made.model_proto.SerializeToString()


def _pt2(model: Predicting, told: dict[str, str]) -> bytes:
    example, sides = _example(model)
    content = io.BytesIO()
    program = torch.export.export(model, (example,), dynamic_shapes=sides)
    torch.export.save(program, content, extra_files=told)
    return content.getvalue()


class Predicting(nn.Module):
    """`predict_proba` and `novelty` of bytes, as one module on the CPU."""

    seen: Tensor
    order: Tensor

    def __init__(self, course: Course, known: Known | None, resizes: bool) -> None:
        super().__init__()
        learner = course.learner
        assert learner is not None
        self.temperature = course.history[-1]["temperature"]
        self.channels, *self.size = course.shape
        self.side = course.form.side if resizes else None
        self.table = len(course.augment.mean) if course.form.table else 0
        self.normalised: nn.Module = (
            Standardised(course.augment)
            if isinstance(course.augment, Columns)
            else Normalised(course.augment)
        )
        self.net = _plain(learner.eval_net)
        method = learner.evaluation.rule == "method"
        self.rule = _rule(learner.predictor) if method else BareLogits()
        seen = learner.seen.cpu() if learner.evaluation.mask_unseen else learner.seen.cpu() | True
        self.register_buffer("seen", seen)
        order = [course.labels.index(label) for label in course.classes.tolist()]
        self.register_buffer("order", torch.tensor(order))
        self.unlike: nn.Module = Energy(self.temperature) if known is None else Distance(known)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if not self.table:
            x = x.permute(0, 3, 1, 2)
            x = x.float() if self.side is None else square(x, self.side)
        out = self.net(self.normalised(x))
        scores = self.rule(self.net.head, out)
        scores = scores.masked_fill(~self.seen, -torch.inf) / self.temperature
        return scores.softmax(1).index_select(1, self.order), self.unlike(out.features, scores)


class Normalised(nn.Module):
    """Pixels of 0..255 as `Augment.eval` gives them: the centre, by mean and deviation."""

    scale: Tensor
    shift: Tensor
    down: Tensor  # what each line that is cut contributes to those that are read
    across: Tensor

    def __init__(self, augment: Augment) -> None:
        super().__init__()
        self.cut, self.resizes = augment.cut or augment.size, augment.cut is not None
        if augment.cut is not None:
            shrinks = augment.cut[0] > augment.size[0]
            for name, stored, read in zip(
                ("down", "across"), augment.cut, augment.size, strict=True
            ):
                self.register_buffer(name, _resizing(stored, read, shrinks))
        mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (augment.mean, augment.std))
        self.register_buffer("scale", 1 / (255 * std))
        self.register_buffer("shift", -mean / std)

    def forward(self, x: Tensor) -> Tensor:
        height, width = self.cut
        top, left = (x.shape[2] - height) // 2, (x.shape[3] - width) // 2
        cut = x[:, :, top : top + height, left : left + width]
        if self.resizes:
            cut = self.down @ cut @ self.across.T
        return cut * self.scale + self.shift


def _resizing(stored: int, read: int, shrinks: bool) -> Tensor:
    """(read, stored): bilinear interpolation along one side, as `Augment` does it."""
    each = torch.eye(stored).view(1, 1, stored, stored)
    return F.interpolate(each, (read, stored), mode="bilinear", antialias=shrinks)[0, 0]


class Standardised(nn.Module):
    """Columns by their means and deviations."""

    mean: Tensor
    std: Tensor

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        for name in ("mean", "std"):
            value = torch.tensor(getattr(columns, name), dtype=torch.float64)
            self.register_buffer(name, value)

    def forward(self, x: Tensor) -> Tensor:
        return ((x.double() - self.mean) / self.std).float()


class Logits(nn.Module):
    def forward(self, head: nn.Module, out: Output) -> Tensor:
        return out.logits


class BareLogits(nn.Module):
    def forward(self, head: nn.Module, out: Output) -> Tensor:
        return head.bare(out.features) if isinstance(head, CorrectedHead) else out.logits


class Nearness(nn.Module):
    """`NearestMean` by products, in float64 where a difference of squares would lose digits."""

    means: Tensor

    def __init__(self, means: Tensor) -> None:
        super().__init__()
        self.register_buffer("means", means.detach().cpu().double())

    def forward(self, head: nn.Module, out: Output) -> Tensor:
        return -_distances(F.normalize(out.features.float()).double(), self.means).float()


def _distances(z: Tensor, means: Tensor) -> Tensor:
    """(n, classes), of rows (n, d) from means (classes, d)."""
    both = z.square().sum(1, keepdim=True) + means.square().sum(1)
    return (both - 2 * z @ means.T).clamp(min=0).sqrt()


class Distance(nn.Module):
    """Novelty by distance: Mahalanobis, from the closest class."""

    means: Tensor
    whitening: Tensor

    def __init__(self, known: Known) -> None:
        super().__init__()
        self.register_buffer("means", torch.from_numpy(known.means @ known.whitening))
        self.register_buffer("whitening", torch.from_numpy(known.whitening))

    def forward(self, features: Tensor, scores: Tensor) -> Tensor:
        whitened = features.float().double() @ self.whitening
        return _distances(whitened, self.means).amin(1).float()


class Energy(nn.Module):
    """Novelty by the energy of scores that were divided by the temperature."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, features: Tensor, scores: Tensor) -> Tensor:
        return -self.temperature * scores.double().logsumexp(1).float()


class PredictorScores(nn.Module):
    """A rule that is plain arithmetic on the outputs, as it is."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = copy.deepcopy(predictor).cpu()

    def forward(self, head: nn.Module, out: Output) -> Tensor:
        scores: Tensor = self.predictor(out)
        return scores


def _rule(predictor: Predictor) -> nn.Module:
    if isinstance(predictor, NearestMean):
        return Nearness(predictor.means)
    if isinstance(predictor, (Aligned, LinearRule, RandomRidge)):
        scores = PredictorScores(predictor)
        if isinstance(scores.predictor, Transported):
            del scores.predictor.statistics  # the rule was made of them
        if isinstance(scores.predictor, RandomRidge):
            del scores.predictor.products
        return scores
    if type(predictor) is not Predictor:
        raise ConfigError(f"cannot export the rule of prediction {type(predictor).__name__}")
    return Logits()


def _plain(net: Net) -> Net:
    """A copy on the CPU without taps, which nobody reads here."""
    copied = copy.deepcopy(net).cpu().float().eval()
    copied.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    copied.taps = ()
    if isinstance(copied.backbone, Wrapped):
        copied.backbone.taps = ()
    return copied.requires_grad_(False)


def square(x: Tensor, side: int) -> Tensor:
    """Bytes (n, c, h, w) as `decoding.square` gives them, rounding included: (n, c, side, side).

    Pillow's triangle filter as two products, along the width and then along the height, in whole
    numbers and each rounded to bytes. Only what the square in the middle needs is computed.
    """
    height, width = (torch.arange(n, dtype=torch.float64) for n in x.shape[2:])
    h, w = height[-1] + 1, width[-1] + 1
    short = torch.minimum(h, w)
    across = _filter(width, w, torch.floor(side * w / short), side)
    down = _filter(height, h, torch.floor(side * h / short), side)
    rounded = torch.floor(x.double() @ across.T / ONE + 0.5)
    return torch.floor(down @ rounded / ONE + 0.5).float()


def _filter(places: Tensor, length: Tensor, wanted: Tensor, side: int) -> Tensor:
    """(side, length): what each pixel contributes to those in the middle of `wanted` ones."""
    scale = length / wanted
    first = torch.round((wanted - side) / 2)
    centre = (torch.arange(side, dtype=torch.float64) + first + 0.5) * scale
    reach = scale.clamp(min=1.0)
    weights = (1 - (places + 0.5 - centre[:, None]).abs() / reach).clamp(min=0)
    return torch.floor(weights / weights.sum(1, keepdim=True) * ONE + 0.5)
