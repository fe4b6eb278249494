"""A net that can be asked: from images to outputs, features and predictions.

The net that predicts may be a stand-in for the one that learns: a copy with averaged weights, or
with freshly estimated statistics.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from ..data.augment import Augment
from ..data.images import Images
from ..errors import ConfigError
from ..nets.heads import CorrectedHead
from ..nets.net import Net, Output, Spec, fits_channels_last, frozen, reestimate
from ..settings import sections
from .predictors import Predictor


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
        self.net = self._place(net)
        self.predictor = predictor.to(self.device)
        self.seen = torch.zeros(spec.classes, dtype=torch.bool, device=self.device)

    @property
    def eval_net(self) -> Net:
        """The net that predicts: the one that learns, or an average of what it was."""
        return self.net

    def evaluate(self, images: Images, net: Net | None = None) -> Output:
        """What the net says of the images as they are, in float32; taps are left out."""
        said = self.outputs(images, net or self.net)
        parts = [(out.logits.float(), out.features.float()) for out in said]
        logits, features = (torch.cat(column) for column in zip(*parts, strict=True))
        return Output(logits, features, {})

    def embed(self, images: Images) -> Tensor:
        """Features that predictions are made from, (n, d) float32."""
        return self.evaluate(images, self.eval_net).features

    def inputs(self, images: Images) -> Tensor:
        """The images as the net reads them at prediction."""
        return self._laid_out(self.augment.eval(images.pixels().to(self.device)))

    def predict(self, images: Images) -> Tensor:
        """Scores (n, classes), -inf where unseen: the only door to evaluation."""
        rule = self.predictor if self.evaluation.rule == "method" else self._bare_logits
        scores = torch.cat([rule(out) for out in self.outputs(images, self.eval_net)]).float()
        return scores.masked_fill(~self.seen, -torch.inf) if self.evaluation.mask_unseen else scores

    @torch.no_grad()
    def outputs(self, images: Images, net: Net) -> Iterator[Output]:
        """What a net says of the images as they are, chunk by chunk."""
        net.eval()
        for part in images.chunks(self.evaluation.chunk):
            with self._precision():
                yield net(self.inputs(part))

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
        return x.contiguous(memory_format=torch.channels_last) if self.channels_last else x

    def _precision(self) -> AbstractContextManager[object]:
        if self.compute.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)
