"""A copy of the net that predicts in its place: by averaged weights, by fresh statistics.

Knows a net and its copy. Knows nothing of tasks, or of who trains the net.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..nets.net import Net, frozen
from ..nets.norms import reestimate


class StandIn(nn.Module):
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
