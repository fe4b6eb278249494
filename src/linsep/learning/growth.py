"""A learner for more classes than before: what was learned is kept, and what is new starts afresh.

Every tensor with a place for each class keeps its old places. Stored logits have no values for
classes that came later: they get what the grown net says of their rows before it has learned
anything of these classes, as if its head had always been that wide.

Knows a learner's parts. Knows no method.
"""

import torch.nn.functional as F

from ..nets.growth import places_of, widened
from .learner import Learner


def grow(narrow: Learner, wide: Learner) -> None:
    """Let a learner for more classes continue where another one ended, between two tasks."""
    state, fresh = narrow.state_dict(), wide.state_dict()
    whole = {name: widened(state[name], fresh[name]) for name in ("net", "predictor", "seen")}
    whole["teacher"] = None if fresh["teacher"] is None else whole["net"]
    if wide.stand_in is not None:
        whole["stand_in"] = widened(state["stand_in"], fresh["stand_in"])
    whole["optimizers"] = fresh["optimizers"]  # every task starts with new ones
    wide.net.load_state_dict(whole["net"])
    places = places_of(narrow.net, wide.net)
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
            said = wide.look(wide.memory.images()).logits.cpu()
            memory["logits"][:, narrow.spec.classes :] = said[:, narrow.spec.classes :]
    wide.load_state_dict(whole | {"memory": memory})
