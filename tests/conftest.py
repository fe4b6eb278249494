import os

# The same bits on CPUs with and without AVX-512; torch reads it when it is first imported.
os.environ["ATEN_CPU_CAPABILITY"] = "avx2"
# One thread for each process, those that tests start included: there is a process for each core.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import HealthCheck, settings

# On a machine with other work, time says nothing about a strategy.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or writes the user's own folders."""
    monkeypatch.setenv("LINSEP_DATA", str(tmp_path_factory.getbasetemp() / "data"))
