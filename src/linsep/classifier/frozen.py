"""A backbone that never learns: images become features once, and a head learns on these.

The features stand in for the images from then on, as rows of a table (columns.py): in lessons, in
the memory and among the rows that are held out. A row that has become numbers can be neither
cropped nor flipped, so nothing is augmented.

Knows nets. Knows nothing of classes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ..data.augment import Augment, Columns
from ..learning.learner import Learner
from ..learning.model import Model
from ..learning.predictors import Predictor
from ..nets.net import Net, Shape
from ..resolve import without_weights
from ..settings import sections
from ..settings.config import Config
from .course import Course
from .features import Frozen


def reading(config: Config, augment: Augment, shape: Shape, module: nn.Module | None) -> Course:
    """A course that is there for its backbone: the one that a classifier with this config starts
    with, and nothing that a method would keep beside it.
    """
    plain = {"method": "ft", "options": {}, "memory": sections.Memory(rows=0)}
    return Course(config.model_copy(update=plain), augment, shape, module=module)


def frozen(learner: Learner) -> Frozen:
    """The backbone of a learner, which learns no more."""
    spec = learner.spec
    net = Net(learner.net.backbone, nn.Identity()).requires_grad_(False)
    model = Model(net, Predictor(spec), learner.augment, learner.evaluation, learner.compute, spec)
    return Frozen(model, spec.raw)


def centred(features: Tensor) -> Columns:
    """Features by their own means and one deviation for all of them.

    A feature that hardly varies among the first classes may vary much among later ones: divided by
    a deviation of its own it would outweigh all the others.
    """
    rows = features.view(torch.float32).view(len(features), -1).numpy()
    each = Columns.of(rows)
    common = float(np.sqrt(np.mean(np.square(rows.std(axis=0, dtype=np.float64))))) or 1.0
    return Columns(each.size, each.mean, (common,) * rows.shape[1], flip=False)


def head_only(config: Config, augment: Augment, front: Frozen, announced: int | None) -> Course:
    """A course whose images are features already; what the backbone started from is behind it."""
    settled = config.model_copy(update={"net": without_weights(config.net)})
    width = 4 * len(augment.mean)
    return Course(settled, augment, (1, 1, width), announced, module=nn.Flatten(), front=front)
