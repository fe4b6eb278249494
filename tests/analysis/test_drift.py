"""How linear the drift between two networks is: against plain numpy, and on drifts made by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.testing import assert_close

from linsep.analysis.analyse import analyse
from linsep.analysis.drift import RIDGE, missed
from linsep.analysis.features import Features, reopen
from linsep.learning.statistics import Affine
from linsep.learning.transport import Linear
from tests.helpers.analysed_runs import trained

D = 4


def both(seed: int, n: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    old = torch.randn(n, D, generator=g, dtype=torch.float64) + 3
    return old, torch.randn(n, D, generator=g, dtype=torch.float64)


def watched(old: torch.Tensor, new: torch.Tensor) -> Linear:
    made = Linear(D, 1e-12, 0.0)
    made.add(old, new, torch.ones(len(old), dtype=torch.float64))
    return made


def test_what_a_map_misses_worked_by_hand() -> None:
    """On images that it was not fitted to, so that their mean is missed too."""
    through = watched(*both(0)).map()
    old, new = both(1)
    found = missed(watched(old, new), through)
    errors = (new - (old @ through.weight + through.bias)).square().sum(1).mean()
    whole = (new - new.mean(0)).square().sum(1).mean()
    assert found == pytest.approx(float(errors / whole))


def test_an_affine_drift_is_missed_by_nothing_and_noise_by_its_share() -> None:
    old, other = both(2, 4000)
    matrix = torch.randn(D, D, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    new = old @ matrix + 7
    assert missed(watched(old, new), watched(old, new).map()) < 1e-9
    noisy = new + other  # of variance 1 in every feature
    share = D / float((noisy - noisy.mean(0)).square().sum(1).mean())
    assert missed(watched(old, noisy), watched(old, noisy).map()) == pytest.approx(share, rel=0.05)
    eye = torch.eye(D, dtype=torch.float64)
    assert missed(watched(old, old), Affine(eye, eye[0] * 0, eye * 0)) == 0


def regression(old: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.float64]:
    """The map as one matrix on (z, 1)."""
    oc, nc = old - old.mean(0), new - new.mean(0)
    gram = oc.T @ oc
    eye = np.eye(len(gram))
    w = eye + np.linalg.solve(gram + RIDGE * np.trace(gram) / len(old) * eye, oc.T @ (nc - oc))
    return np.vstack([w, new.mean(0) - old.mean(0) @ w])


def test_a_run_s_drift_is_that_of_its_kept_features(tmp_path: Path) -> None:
    """The layer `features` again, from the matrices that other analyses use."""
    folder = trained(tmp_path, "derpp+bfp")
    run = Features(folder, reopen(folder))
    found = analyse(run, "drift", {})["tasks"]
    assert [task["task"] for task in found] == [after.task for _, after in run.pairs]
    for (before, after), task in zip(run.pairs, found, strict=True):
        assert [layer["layer"] for layer in task["layers"]] == ["block1", "block2", "features"]
        for layer in task["layers"]:
            assert all(layer[name] >= 0 for name in ("own", "old", "least", "still"))
        t = after.task
        spans = {"own": (t, t + 1), "old": (0, t)}
        maps, tests = {}, {}
        for name, (first, end) in spans.items():
            (a, _), (b, _) = (run.of_tasks(s, "train", first, end) for s in (before, after))
            maps[name] = regression(a.double().numpy(), b.double().numpy())
            (a, _), (b, _) = (run.of_tasks(s, "test", first, end) for s in (before, after))
            tests[name] = a.double().numpy(), b.double().numpy()

        def share(on: str, by: str) -> float:
            old, new = tests[on]  # noqa: B023
            guess = np.hstack([old, np.ones((len(old), 1))]) @ maps[by]  # noqa: B023
            return float(np.square(new - guess).sum() / np.square(new - new.mean(0)).sum())

        expected = share("own", "own"), share("old", "own"), share("old", "old")
        mine = [task["layers"][-1][name] for name in ("own", "old", "least")]
        assert_close(torch.tensor(mine), torch.tensor(expected), rtol=1e-4, atol=1e-6)
