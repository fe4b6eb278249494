"""Optimisers are torch's bit for bit, and a run starts without what only torch.compile needs."""

import copy
import subprocess
import sys
from typing import Any

import pytest
import torch

from linsep.learning import optimizers
from linsep.testing import same

KINDS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "weight_decay": 0.01}, "Adam": {}, "AdamW": {"weight_decay": 0.1},
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_steps_and_states_are_those_of_torch(name: str) -> None:
    net = torch.nn.Linear(5, 3)
    twin = copy.deepcopy(net)
    mine, theirs = (
        getattr(module, name)(made.parameters(), lr=0.1, **KINDS[name])
        for module, made in ((optimizers, net), (torch.optim, twin))
    )
    for step in range(4):
        x = torch.randn(7, 5, generator=torch.Generator().manual_seed(step))
        for made, optimizer in ((net, mine), (twin, theirs)):
            optimizer.zero_grad()
            made(x).square().mean().backward()
            optimizer.step()
        assert same(dict(net.state_dict()), dict(twin.state_dict()))
        assert same(mine.state_dict(), theirs.state_dict())
        mine.load_state_dict(copy.deepcopy(theirs.state_dict()))
        assert same(mine.state_dict(), theirs.state_dict())


RUN = """
import sys, linsep
config = linsep.Config(scenario="blobs", method="derpp+bfp", memory=20, training={"epochs": 1})
assert list(linsep.build(config))
print("torch._dynamo" in sys.modules)
"""


def test_a_run_starts_without_the_compiler() -> None:
    """It would take a second to import."""
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
