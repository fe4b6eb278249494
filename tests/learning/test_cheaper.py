"""Forms of BFP that leave passes out: what they still look at, what they cost, what they keep."""

from typing import Any

import pytest
import torch

from linsep import testing
from linsep.errors import ConfigError
from linsep.learning.run import Run, TaskEnd
from linsep.methods import assemble
from linsep.methods.backward import bfp
from linsep.prepare import prepare
from linsep.settings.config import Config

CHEAP = {
    "every": {"every": 2},
    "stored": {"target": "stored"},
    "stored, replay": {"target": "stored", "on": "replay"},
    "all": {"target": "stored", "on": "replay", "every": 3},
}


def toy(name: str, options: dict[str, Any], memory: dict[str, Any] | None = None) -> Run:
    return testing.toy_run(assemble(name, {"bfp": options}), memory=memory)


@pytest.mark.parametrize("options", CHEAP.values(), ids=CHEAP)
def test_a_weight_of_zero_changes_nothing(options: dict[str, Any]) -> None:
    testing.ignores_a_term_of_weight_zero(assemble("derpp", {}), bfp(**options))


@pytest.mark.parametrize("name", ["icarl", "bic", "fdr", "ft"])
def test_stored_features_go_with_every_memory(name: str) -> None:
    testing.resumes_exactly(assemble(f"{name}+bfp", {"bfp": {"target": "stored"}}))


def test_no_frozen_net_is_kept_where_nothing_passes_it() -> None:
    assert toy("er+bfp", {"target": "stored", "on": "replay"}).learner.previous_net is None
    assert toy("er+bfp", {"target": "stored"}).learner.previous_net is not None


def test_rows_have_the_features_of_the_last_tasks_end() -> None:
    run = toy("er+bfp", {"target": "stored", "on": "replay"})
    learner = run.learner
    for event in run:
        features = learner.memory.columns["features"][: len(learner.memory)]
        known = features.isfinite().all(1)
        if isinstance(event, TaskEnd):
            assert known.all()
            assert torch.equal(features, learner.embed(learner.memory.images()))
        elif run.cursor.stage == 0:
            classes = run.scenario.tasks[run.cursor.task].classes
            fresh = torch.isin(learner.memory.y[: len(features)], torch.tensor(classes))
            assert torch.equal(known, ~fresh)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "stored", "on": "stream"}, "bfp.target: 'stored' is about replayed rows"),
        ({"target": "stored", "layers": ["block1"]}, "bfp.target: only the layer 'features'"),
        ({"every": 0}, "bfp.every: should be greater than or equal to 1"),
        ({"target": "both"}, "bfp.target: should be 'previous_net' or 'stored'"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    config = Config(scenario="blobs", method="er+bfp", net="cnn", options={"bfp": options})
    with pytest.raises(ConfigError, match=said):
        prepare(config)
