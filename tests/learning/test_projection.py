"""BackwardProjection in anyone's loop, and the term that chooses which rows it looks at."""

from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from linsep.data.images import Images
from linsep.data.tasks import Task
from linsep.errors import ConfigError, DataError
from linsep.learning.projection import BackwardFeatures, BackwardProjection, Init, Kind
from linsep.learning.terms import On, Step
from linsep.nets.net import Spec


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def keyed(make: Any, seed: int = 0) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


# --- alone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("init", get_args(Init))
def test_reset_forgets_what_was_learned_in_place(kind: Kind, init: Init) -> None:
    bfp = keyed(lambda: BackwardProjection(4, kind, init))
    fresh = [p.detach().clone() for p in bfp.parameters()]
    ids = [id(p) for p in bfp.parameters()]
    with torch.no_grad():
        for p in bfp.parameters():
            p.fill_(7)
    keyed(bfp.reset, seed=1)
    assert [id(p) for p in bfp.parameters()] == ids  # so that an optimiser still holds them
    assert not any((p == 7).any() for p in bfp.parameters())
    if init == "identity":
        assert all(map(torch.equal, bfp.parameters(), fresh))
    else:
        assert not torch.equal(next(bfp.parameters()), fresh[0])  # another draw
    keyed(bfp.reset, seed=2)
    first = [p.detach().clone() for p in bfp.parameters()]
    keyed(bfp.reset, seed=2)
    assert all(map(torch.equal, bfp.parameters(), first))


@pytest.mark.parametrize("field", ["init", "scale"])
def test_an_unknown_choice_is_refused(field: str) -> None:
    """In a loop of one's own there is no config that would have refused it before."""
    chosen: dict[str, Any] = {field: "zeros"}
    with pytest.raises(ConfigError, match="zeros"):
        BackwardProjection(3, **chosen)


# --- as a term: which rows enter -----------------------------------------------------------------

WIDTHS = {"low": 2, "features": 3}
SPEC = Spec((1, 2, 2), (1, 2, 2), 4, WIDTHS)


def a_task(index: int) -> Task:
    empty = Images.of(torch.zeros(0, 1, 2, 2, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64))
    return Task(index, (2 * index, 2 * index + 1), tuple(range(2 * index)), empty)


class FakePass:
    """Features that were made up, now and before, and the labels of their rows."""

    def __init__(self, labels: list[int], seed: int, before: bool = True) -> None:
        g = generator(seed)
        self.batch = SimpleNamespace(y=torch.tensor(labels))
        now, past = (
            {name: torch.randn(len(labels), w, generator=g) for name, w in WIDTHS.items()}
            for _ in range(2)
        )
        self.out = SimpleNamespace(taps={k: v.requires_grad_() for k, v in now.items()})
        self.before = SimpleNamespace(taps=past) if before else None

    def rows(self, layer: str = "features", keep: list[int] | None = None) -> tuple[Tensor, Tensor]:
        assert self.before is not None
        rows = slice(None) if keep is None else torch.tensor(keep, dtype=torch.int64)
        return self.out.taps[layer][rows].detach(), self.before.taps[layer][rows]


def a_step(task: Task, stream: FakePass, replay: FakePass | None) -> Step:
    return cast(Step, SimpleNamespace(task=task, net=None, stream=stream, replay=replay))


def distance(*parts: tuple[Tensor, Tensor]) -> Tensor:
    """FD's loss of some rows, written out."""
    rows = torch.cat([new - old for new, old in parts])
    return rows.square().sum(1).sqrt().mean() / rows.shape[1] ** 0.5


STREAM, REPLAY = [2, 3, 2], [0, 3, 1, 2]


@pytest.mark.parametrize("on", get_args(On))
def test_which_rows_enter(on: On) -> None:
    """Stream, replay or both; of replay alone the rows of earlier classes, 0 and 1."""
    term = BackwardFeatures(SPEC, kind="identity", on=on)
    stream, replay = FakePass(STREAM, 1), FakePass(REPLAY, 2)
    loss = term(a_step(a_task(1), stream, replay))
    assert loss is not None
    expected = {
        "both": distance(stream.rows(), replay.rows()),
        "stream": distance(stream.rows()),
        "replay": distance(replay.rows(keep=[0, 2])),
    }[on]
    assert_close(loss.detach(), expected)
    loss.backward()
    touched = [p.out.taps["features"].grad for p in (stream, replay)]
    rows = [[] if g is None else g.any(1).nonzero()[:, 0].tolist() for g in touched]
    assert rows == {
        "both": [[0, 1, 2], [0, 1, 2, 3]],
        "stream": [[0, 1, 2], []],
        "replay": [[], [0, 2]],
    }[on]  # fmt: skip


def test_a_draw_without_old_classes_says_nothing() -> None:
    term = BackwardFeatures(SPEC, kind="identity", on="replay")
    assert term(a_step(a_task(1), FakePass(STREAM, 1), FakePass([2, 3], 2))) is None


@pytest.mark.parametrize("kind", get_args(Kind))
def test_several_layers_are_averaged_each_with_a_map_of_its_own(kind: Kind) -> None:
    layers = ("low", "features")
    term = keyed(lambda: BackwardFeatures(SPEC, kind=kind, layers=layers))
    stream, replay = FakePass(STREAM, 1), FakePass(REPLAY, 2)
    found = term(a_step(a_task(1), stream, replay)).detach()
    each = []
    for layer, bfp in zip(layers, term.maps, strict=True):
        parts = zip(stream.rows(layer), replay.rows(layer), strict=True)
        new, old = map(torch.cat, parts)
        each.append(distance((bfp.project(new).detach(), old)))
    assert_close(found, (each[0] + each[1]) / 2)
    assert each[0] != each[1]


def test_the_maps_start_afresh_each_task_unless_told_otherwise() -> None:
    for reset in (True, False):
        term = keyed(lambda reset=reset: BackwardFeatures(SPEC, reset=reset))
        before = [p.detach().clone() for p in term.parameters()]
        keyed(lambda term=term: term.begin_task(a_task(1)), seed=1)
        changed = [not torch.equal(p, q) for p, q in zip(term.parameters(), before, strict=True)]
        assert changed == [reset] * 2


def test_a_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'feature'.*Did you mean 'features'\?"):
        BackwardFeatures(SPEC, layers=("feature",))


def test_no_rows_are_refused_and_not_nan() -> None:
    with pytest.raises(DataError, match="no rows"):
        BackwardProjection(4)(torch.zeros(0, 4), torch.zeros(0, 4))
    with pytest.raises(ConfigError, match="features"):
        BackwardProjection("4")  # type: ignore[arg-type]
