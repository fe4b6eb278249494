"""From a net's output to scores. Knows features and exemplars, not which classes have been seen."""

from torch import Tensor, nn

from .data import Images
from .memory import Embed
from .nets import Output, Spec


class Predictor(nn.Module):
    """The net's own logits."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()

    def forward(self, out: Output) -> Tensor:
        return out.logits

    def fit(self, exemplars: Images, embed: Embed) -> None:
        """Called after every task, once the memory has settled."""
