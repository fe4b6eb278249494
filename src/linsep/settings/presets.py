"""The presets: the choices of the paper's text, those of its authors' program, and a faster form.

Knows option names and values, nothing else. docs/fidelity.md explains each; the D-numbers are its.
"""

from collections.abc import Mapping
from typing import Any

_TEXT_REPLAY = {"first_task": False}  # D3: "if t > 1"
_TEXT_LOGITS = {"target": "stored", "distance": "squared"}  # D4, D11
_TEXT_FEATURES = {"on": "both", "scale": "none"}  # eq. 11 (D2), D1
_PROGRAM_REPLAY = {"first_task": True}
_PROGRAM_LOGITS = {"target": "old_net", "distance": "mse"}
_PROGRAM_FEATURES = {"on": "both", "scale": "root_d"}
_PROGRAM_OPTIONS = {
    "jt": {"data": "all"},
    "er": _PROGRAM_REPLAY,
    **dict.fromkeys(("der", "derpp"), _PROGRAM_REPLAY | _PROGRAM_LOGITS),
    "fdr": {"update": "two_steps"},  # D15
    "bic": {"share": "one_over_tasks", "bias_lr": 1e-3, "bias_penalty": 0.0},
    "icarl": {"herd_by": "feature"},
    "lucir": {"ce_among": "all", "fit_by": "all", "last_relu": True},
    **dict.fromkeys(("bfp", "bfp2", "fd"), _PROGRAM_FEATURES),
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "memory": {"evict": "one_largest", "draws": "fresh"},  # D9
        "training": {"bn_updates": "all"},
        "evaluation": {"mask_unseen": True, "rule": "method"},
        "options": {
            "jt": {"data": "all"},
            "er": _TEXT_REPLAY,
            **dict.fromkeys(("der", "derpp"), _TEXT_REPLAY | _TEXT_LOGITS),
            "bic": {"bias_lr": 1e-3},
            **dict.fromkeys(("bfp", "bfp2", "fd"), _TEXT_FEATURES),
        },
    },
    "authors": {
        "memory": {"evict": "all_largest", "draws": "fresh"},
        "training": {"bn_updates": "all"},
        "evaluation": {"mask_unseen": False, "rule": "logits"},  # D12
        "options": _PROGRAM_OPTIONS,
    },
    # Ours: all terms look at one draw, which is too few for BatchNorm's running statistics.
    "fast": {
        "memory": {"evict": "all_largest", "draws": "shared"},
        "training": {"bn_updates": "all"},
        "evaluation": {"mask_unseen": True, "rule": "method", "batchnorm": "reestimated"},
        "options": _PROGRAM_OPTIONS,
    },
}
