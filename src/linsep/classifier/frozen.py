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

from ..data.augment import Augment
from ..learning.model import Model
from ..learning.predictors import Predictor
from ..nets.net import Net, Shape
from ..settings.config import Config
from .columns import Columns
from .course import Course
from .features import Frozen


def frozen(
    config: Config, augment: Augment, shape: Shape, module: nn.Module | None = None
) -> Frozen:
    """The backbone that a classifier with this config starts with."""
    learner = Course(config, augment, shape, module=module).learner_for(2)
    net = Net(learner.net.backbone, nn.Identity()).requires_grad_(False)
    spec = learner.spec
    model = Model(net, Predictor(spec), augment, config.evaluation, config.compute, spec)
    return Frozen(model, shape)


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
    """A course whose images are features already."""
    width = 4 * len(augment.mean)
    return Course(config, augment, (1, 1, width), announced, module=nn.Flatten(), front=front)
