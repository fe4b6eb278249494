"""Precision, layout and compilation: other arithmetic, the same learning."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import linsep
from linsep import testing
from linsep.errors import ConfigError
from linsep.learning.run import StepEnd
from linsep.prepare import prepare, set_deterministic
from linsep.settings.config import from_settings
from linsep.storage.session import Session

PROTOCOLS: dict[str, Any] = {
    "scenario": {"name": "blobs", "classes": 4, "train": 20, "test": 10},
    "method": "derpp+bfp",
    "memory": 8,
    "training": {"epochs": 2, "batch_size": 10},
}


def config(settings: dict[str, Any], **compute: Any) -> linsep.Config:
    return from_settings(settings | {"compute": {"device": "cpu", **compute}})


def losses(**compute: Any) -> torch.Tensor:
    """Cross-entropy of every step."""
    run = prepare(config(PROTOCOLS, **compute)).build()
    return torch.stack([e.losses["ce"] for e in run if isinstance(e, StepEnd)])


def test_channels_last_changes_rounding_only() -> None:
    torch.testing.assert_close(
        losses(channels_last=True), losses(channels_last=False), rtol=1e-3, atol=1e-4
    )


def test_channels_last_keeps_away_from_channels_that_torch_does_not_survive() -> None:
    """Its CPU convolutions corrupt memory there, which no test should try."""
    narrow = PROTOCOLS | {"net": {"name": "cnn", "width": 4}}
    assert not prepare(config(narrow)).build().learner.channels_last
    assert prepare(config(PROTOCOLS)).build().learner.channels_last
    with pytest.raises(ConfigError, match="multiple of 8"):
        prepare(config(narrow, channels_last=True)).build()


def test_bf16_learns_alike_and_keeps_weights_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linsep.resolve.native_bf16", lambda: True)
    run = prepare(config(PROTOCOLS, precision="bf16")).build()
    found = torch.stack([e.losses["ce"] for e in run if isinstance(e, StepEnd)])
    assert {p.dtype for p in run.learner.net.parameters()} == {torch.float32}
    exact = losses()
    assert not torch.equal(found, exact)
    torch.testing.assert_close(found.float(), exact, rtol=0.2, atol=0.2)
    again = prepare(config(PROTOCOLS, precision="bf16")).build()
    list(again)
    assert testing.same(run.state_dict(), again.state_dict())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_compiled_net_learns_the_same_and_saves_the_same_names() -> None:
    settings = PROTOCOLS | {"training": {"epochs": 1, "batch_size": 10}, "method": "er"}
    plain, compiled = (prepare(config(settings, compile=c)).build() for c in (False, True))
    found = [
        torch.stack([e.losses["ce"] for e in run if isinstance(e, StepEnd)])
        for run in (plain, compiled)
    ]
    torch.testing.assert_close(*found, rtol=1e-2, atol=1e-3)
    assert plain.meter.run == compiled.meter.run
    names = [set(run.learner.net.state_dict()) for run in (plain, compiled)]
    assert names[0] == names[1]


def test_bf16_is_refused_where_the_cpu_would_emulate_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linsep.resolve.native_bf16", lambda: False)
    with pytest.raises(ConfigError, match=r"compute\.precision: .* 19 times slower; use 'fp32'"):
        prepare(config(PROTOCOLS, precision="bf16"))


@pytest.fixture
def _flags() -> Iterator[None]:
    """What `set_deterministic` changes, put back."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32
    yield
    cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32 = before
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("_flags")
@pytest.mark.parametrize("on", [True, False])
def test_determinism_on_cuda_is_set_either_way(on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid's worker does one run after another, so none may inherit the choice of the last."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    set_deterministic(not on)
    set_deterministic(on)
    assert torch.are_deterministic_algorithms_enabled() == on
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark) == (on, not on)
    assert torch.backends.cudnn.allow_tf32 == (not on)
    assert torch.backends.cuda.matmul.allow_tf32 == (not on)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


@pytest.mark.parametrize("load", [0.0, 50.0])
def test_threads_do_not_follow_the_state_of_the_machine(
    load: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    large = PROTOCOLS | {"net": {"name": "mlp", "width": 1024}}
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with Session(prepare(config(large)), tmp_path) as session:
            assert session.run is not None
            assert session.run.learner.spec.parameters > 1_000_000
            assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
