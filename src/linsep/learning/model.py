"""A net that can be asked: from images to outputs, features and predictions.

The net that predicts may be a stand-in for the one that learns: a copy with averaged weights, or
with freshly estimated statistics. A predictor makes scores of the net's output; where the head is a
rule of its own (cosine, bias-corrected), these are its logits.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.augment import Augment
from ..data.images import Images
from ..data.tasks import Task
from ..errors import ConfigError, DivergedError
from ..nets.allocator import keep_freed_memory
from ..nets.heads import CorrectedHead, DecidesLinearly, LinearHead
from ..nets.net import Net, Output, Spec, fits_channels_last, frozen, reestimate
from ..settings import sections
from .terms import TaskContext

Inputs = Callable[[Images], Tensor]  # from images to what a net reads
PIXELS = (
    2**18
)  # that pass at once on a CPU; EfficientNet at 224 takes 3 times as long with 8 times as many
NEVER = -1e30  # the score of a class that nothing is known of: less than any other's


class Predictor(nn.Module):
    """The net's own logits."""

    looks_back = False  # whether `fit` compares with the network that predicted before this task

    def __init__(self, spec: Spec) -> None:
        super().__init__()

    def forward(self, out: Output) -> Tensor:
        return out.logits

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        """Weights and biases of the linear rule that decides as this one does on the features."""
        return head.as_linear()

    def fit(self, context: TaskContext, exemplars: Images) -> None:
        """Called after every task, once the memory has settled, with the rows it has."""

    def add(self, context: TaskContext) -> None:
        """Take in more rows of the task that has just been fitted, if a sum of rows decides."""


class LinearRule(Predictor):
    """A linear head of its own, beside the one that the net is trained with."""

    weight: Tensor  # (C, d)
    bias: Tensor  # (C,)

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.register_buffer("weight", torch.zeros(spec.classes, spec.features))
        self.register_buffer("bias", torch.full((spec.classes,), NEVER))

    def forward(self, out: Output) -> Tensor:
        return F.linear(out.features.float(), self.weight, self.bias)

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        return self.weight, self.bias

    def decide_by(self, classes: Tensor, weight: Tensor, bias: Tensor) -> None:
        """Decide among these classes alone by w z + b."""
        self.weight.zero_()
        self.bias.fill_(NEVER)
        self.weight[classes] = weight.to(self.weight)
        self.bias[classes] = bias.to(self.bias)


class NearestMean(Predictor):
    """iCaRL's rule: the closest mean of a class's exemplars, all features on the unit sphere."""

    means: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.register_buffer("means", torch.zeros(spec.classes, spec.features))

    def forward(self, out: Output) -> Tensor:
        z = F.normalize(out.features.float())
        return -torch.cdist(z, self.means, compute_mode="donot_use_mm_for_euclid_dist")

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        """Among unit vectors the closest mean m is the one with the largest m z - |m|^2 / 2.

        |z| = 1 there, and |m| = 1 for every class that has exemplars; so |z| does not matter.
        """
        return self.means.detach(), self.means.new_zeros(len(self.means))

    def fit(self, context: TaskContext, exemplars: Images) -> None:
        if not len(exemplars):
            return
        z = F.normalize(context.evaluate(exemplars).features)
        for c in exemplars.y.unique().tolist():
            rows = (exemplars.y == c).to(z.device)
            self.means[c] = F.normalize(z[rows].mean(0), dim=0)


class Aligned(Predictor):
    """The logits of a linear head whose newest rows have been made as long as the older ones.

    w_c z + b_c, with g w_c for w_c in the newest task's classes; g is the mean length of the older
    classes' rows over that of the newest ones' (Zhao et al., 2020). The net stays as it is.
    """

    scale: Tensor
    bias: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.register_buffer("scale", torch.ones(spec.classes))
        self.register_buffer("bias", torch.zeros(spec.classes))

    def forward(self, out: Output) -> Tensor:
        return self.scale * (out.logits.float() - self.bias) + self.bias

    def as_linear(self, head: DecidesLinearly) -> tuple[Tensor, Tensor]:
        weight, bias = head.as_linear()
        return self.scale[:, None] * weight, bias

    def fit(self, context: TaskContext, exemplars: Images) -> None:
        head, task = context.net.head, context.task
        assert isinstance(head, LinearHead)
        weight, bias = head.as_linear()
        self.bias.copy_(bias)
        self.scale.fill_(1.0)
        if task.earlier and task.classes:
            length = weight.norm(dim=1)
            old, new = (length[list(classes)].mean() for classes in (task.earlier, task.classes))
            self.scale[list(task.classes)] = old / new


def finite(features: Tensor, task: Task) -> Tensor:
    """The features on the host; DivergedError if they are no longer numbers."""
    if not features.isfinite().all():
        raise DivergedError(
            f"the features are no longer numbers after task {task.index + 1}; try a smaller "
            "training.lr or a smaller weight"
        )
    return features.cpu()


class EvalNet(nn.Module):
    """A net with the weights of another, or with their average by `decay` over the steps.

    Of the first steps the average is the plain mean, until a step's share in it is 1 - decay: what
    was before the first step has no part in it. BatchNorm's statistics are estimated for these
    weights whenever it settles, so that training can continue as if it had never been asked.
    """

    steps: Tensor  # that were averaged; on the host

    def __init__(self, net: Net, decay: float | None = None) -> None:
        super().__init__()
        self.net, self.decay = frozen(net), decay
        self.register_buffer("steps", torch.tensor(0))

    @torch.no_grad()
    def follow(self, net: Net) -> None:
        """Take in the weights after a step."""
        if self.decay is not None:
            done = int(self.steps)
            self._approach(net, 1 - min(self.decay, done / (done + 1)))
            self.steps += 1

    def restart(self) -> None:
        """Forget all steps: the next one's weights are the average."""
        self.steps.zero_()

    @torch.no_grad()
    def settle(self, net: Net, batches: Iterable[Tensor]) -> None:
        """Make ready to predict: BatchNorm's statistics are the averages over these batches."""
        if self.decay is None:
            self._approach(net, 1.0)
        for mine, theirs in zip(self.net.buffers(), net.buffers(), strict=True):
            mine.copy_(theirs)
        reestimate(self.net, batches)

    def _approach(self, net: Net, share: float) -> None:
        for mine, theirs in zip(self.net.parameters(), net.parameters(), strict=True):
            mine.lerp_(theirs, share)


class Model:
    def __init__(
        self,
        net: Net,
        predictor: Predictor,
        augment: Augment,
        evaluation: sections.Evaluation,
        compute: sections.Compute,
        spec: Spec,
    ) -> None:
        self.augment, self.evaluation, self.compute = augment, evaluation, compute
        self.device = torch.device("cpu" if compute.device == "auto" else compute.device)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.net = self._place(net)
        self.predictor = predictor.to(self.device)
        self.seen = torch.zeros(spec.classes, dtype=torch.bool, device=self.device)

    @property
    def eval_net(self) -> Net:
        """The net that predicts: the one that learns, or an average of what it was."""
        return self.net

    def evaluate(
        self, images: Images, net: Net | None = None, inputs: Inputs | None = None
    ) -> Output:
        """What the net says of the images as they are, in float32; taps are left out."""
        said = self.outputs(images, net or self.net, inputs)
        parts = [(out.logits.float(), out.features.float()) for out in said]
        logits, features = (torch.cat(column) for column in zip(*parts, strict=True))
        return Output(logits, features, {})

    def embed(self, images: Images) -> Tensor:
        """Features that predictions are made from, (n, d) float32."""
        return self.evaluate(images, self.eval_net).features

    def inputs(self, images: Images) -> Tensor:
        """The images as the net reads them at prediction."""
        return self._laid_out(self.augment.eval(images.pixels().to(self.device)))

    def unnormalised(self, images: Images) -> Tensor:
        """The same with pixels in [0, 1]."""
        channels = len(self.augment.mean)
        plain = replace(self.augment, mean=(0.0,) * channels, std=(1.0,) * channels)
        return self._laid_out(plain.eval(images.pixels().to(self.device)))

    def predict(self, images: Images) -> Tensor:
        """Scores (n, classes), -inf where unseen: the only door to evaluation."""
        rule = self.predictor if self.evaluation.rule == "method" else self._bare_logits
        scores = torch.cat([rule(out) for out in self.outputs(images, self.eval_net)]).float()
        return scores.masked_fill(~self.seen, -torch.inf) if self.evaluation.mask_unseen else scores

    @torch.no_grad()
    def outputs(self, images: Images, net: Net, inputs: Inputs | None = None) -> Iterator[Output]:
        """What a net says of the images as they are, chunk by chunk."""
        net.eval()
        read = inputs or self.inputs
        for part in images.chunks(self._at_once(images)):
            with self._precision():
                yield net(read(part))

    def _at_once(self, images: Images) -> int:
        """How many images pass at once: on a CPU so few that they stay in its cache."""
        chunk = self.evaluation.chunk
        if self.device.type != "cpu" or len(images.shape) == 1:
            return chunk
        return max(1, min(chunk, PIXELS // math.prod(images.shape[1:])))

    @torch.no_grad()
    def _bare_logits(self, out: Output) -> Tensor:
        """What the head gives without a correction that a method may have put behind it (D12)."""
        head = self.eval_net.head
        return head.bare(out.features) if isinstance(head, CorrectedHead) else out.logits

    def _place(self, net: Net) -> Net:
        wanted = self.compute.channels_last
        self.channels_last = fits_channels_last(net) if wanted == "auto" else wanted
        if self.channels_last and self.device.type == "cpu" and not fits_channels_last(net):
            raise ConfigError(
                "compute.channels_last: this net has layers whose channels are not a multiple of "
                "8, which torch's convolutions on the CPU do not survive; leave it at auto"
            )
        layout = torch.channels_last if self.channels_last else torch.preserve_format
        return net.to(self.device, memory_format=layout)  # type: ignore[call-overload]

    def _laid_out(self, x: Tensor) -> Tensor:
        images = self.channels_last and x.ndim == 4
        return x.contiguous(memory_format=torch.channels_last) if images else x

    def _precision(self) -> AbstractContextManager[object]:
        if self.compute.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)
