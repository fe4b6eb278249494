"""A learner for more classes, or for fewer, continues where another one ended between tasks."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..nets.heads import narrowed, places_of, widened
from .learner import Learner


def grow(narrow: Learner, wide: Learner) -> None:
    """Let a learner for more classes continue where another one ended, between two tasks.

    Every tensor with a place for each class keeps its old places. Stored logits have no values for
    classes that came later: they get what the grown net says of their rows before it has learned
    anything of these classes, as if its head had always been that wide.
    """
    state, fresh = narrow.state_dict(), wide.state_dict()
    whole = {name: widened(state[name], fresh[name]) for name in ("net", "predictor", "seen")}
    whole["previous_net"] = None if fresh["previous_net"] is None else whole["net"]
    if wide.eval_copy is not None:
        whole["eval_copy"] = widened(state["eval_copy"], fresh["eval_copy"])
    whole["optimizers"] = fresh["optimizers"]  # every task starts with new ones
    wide.net.load_state_dict(whole["net"])
    places = places_of(narrow.net, wide.net, torch.arange(narrow.spec.classes))
    whole["terms"] = {
        name: term.grown(state["terms"][name], places, wide.net)
        for name, term in wide.terms.items()
    }
    memory = dict(state["memory"])
    if wide.memory.logits is not None:
        old, more = memory["logits"], wide.spec.classes - narrow.spec.classes
        memory["logits"] = F.pad(old, (0, more))
        wide.memory.load_state_dict(memory)
        if len(old):
            said = wide.evaluate(wide.memory.images()).logits.cpu()
            memory["logits"][:, narrow.spec.classes :] = said[:, narrow.spec.classes :]
    wide.load_state_dict(whole | {"memory": memory})


def shrink(wide: Learner, narrow: Learner, classes: Tensor, memory: Mapping[str, Any]) -> None:
    """Let a learner for fewer classes continue with some of another one's, between two tasks.

    `memory` is the state of the narrow learner's memory.
    """
    state, fresh = wide.state_dict(), narrow.state_dict()
    places = places_of(narrow.net, wide.net, classes)
    chosen = {name: narrowed(state[name], fresh[name], classes, places) for name in fresh
              if name not in ("memory", "optimizers")}  # fmt: skip
    narrow.load_state_dict(chosen | {"memory": memory, "optimizers": fresh["optimizers"]})
