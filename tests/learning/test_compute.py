"""Precision, layout and compilation: other arithmetic, the same learning."""

from typing import Any

import pytest
import torch

import linsep
from linsep import testing
from linsep.errors import ConfigError
from linsep.learning.run import StepEnd
from linsep.prepare import prepare
from linsep.settings.config import from_settings
from linsep.storage.environment import cores, threads_for

SETTINGS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 20, "test": 10},
    "method": "derpp+bfp",
    "memory": 8,
    "training": {"epochs": 2, "batch_size": 10},
}


def config(settings: dict[str, Any], **compute: Any) -> linsep.Config:
    return from_settings(settings | {"compute": {"device": "cpu", **compute}})


def losses(**compute: Any) -> torch.Tensor:
    """Cross-entropy of every step."""
    run = prepare(config(SETTINGS, **compute)).build()
    return torch.stack([e.losses["ce"] for e in run if isinstance(e, StepEnd)])


def test_channels_last_changes_rounding_only() -> None:
    torch.testing.assert_close(
        losses(channels_last=True), losses(channels_last=False), rtol=1e-3, atol=1e-4
    )


def test_channels_last_keeps_away_from_channels_that_torch_does_not_survive() -> None:
    """Its CPU convolutions corrupt memory there, which no test should try."""
    narrow = SETTINGS | {"net": {"name": "cnn", "width": 4}}
    assert not prepare(config(narrow)).build().learner.channels_last
    assert prepare(config(SETTINGS)).build().learner.channels_last
    with pytest.raises(ConfigError, match="multiple of 8"):
        prepare(config(narrow, channels_last=True)).build()


def test_bf16_learns_alike_and_keeps_weights_in_fp32() -> None:
    run = prepare(config(SETTINGS, precision="bf16")).build()
    found = torch.stack([e.losses["ce"] for e in run if isinstance(e, StepEnd)])
    assert {p.dtype for p in run.learner.net.parameters()} == {torch.float32}
    exact = losses()
    assert not torch.equal(found, exact)
    torch.testing.assert_close(found.float(), exact, rtol=0.2, atol=0.2)
    again = prepare(config(SETTINGS, precision="bf16")).build()
    list(again)
    assert testing.same(run.state_dict(), again.state_dict())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_compiled_net_learns_the_same_and_saves_the_same_names() -> None:
    settings = SETTINGS | {"training": {"epochs": 1, "batch_size": 10}, "method": "er"}
    plain, compiled = (prepare(config(settings, compile=c)).build() for c in (False, True))
    found = [
        torch.stack([e.losses["ce"] for e in run if isinstance(e, StepEnd)])
        for run in (plain, compiled)
    ]
    torch.testing.assert_close(*found, rtol=1e-2, atol=1e-3)
    names = [set(run.learner.net.state_dict()) for run in (plain, compiled)]
    assert names[0] == names[1]


def test_threads_never_exceed_the_cores_and_small_nets_take_one() -> None:
    assert threads_for(1000) == 1
    assert 1 <= threads_for(11_000_000) <= cores()
