"""The bridge to Avalanche, with the real one, where it is installed.

In a process of its own: beside the CPU build of torch, torchvision misses operators that must be
there before it is first imported.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers.operators import OPERATORS
from tests.helpers.snippets import blocks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("avalanche") is None, reason="avalanche-lib is not installed"),
]

STAGE = """
from avalanche.benchmarks import nc_benchmark
from avalanche.models import SimpleMLP
from avalanche.training.supervised import Naive, Replay
from linsep.avalanche import BFPPlugin, from_benchmark

torch.manual_seed(0)
classes = torch.arange(6).repeat_interleave(12)
images = torch.rand(72, 1, 8, 8) / 4 + classes[:, None, None, None] / 8
data = torch.utils.data.TensorDataset(images, classes)
data.targets = classes.tolist()
benchmark = nc_benchmark(data, data, n_experiences=3, task_labels=False, seed=1)

def trained(*plugins, replay=True):
    torch.manual_seed(0)
    model = SimpleMLP(num_classes=6, input_size=64, hidden_size=16, drop_rate=0.0)
    descent = torch.optim.SGD(model.parameters(), lr=0.1)
    kind, more = (Replay, {"mem_size": 12}) if replay else (Naive, {})
    strategy = kind(
        model=model, optimizer=descent, criterion=torch.nn.CrossEntropyLoss(), train_mb_size=8,
        train_epochs=2, plugins=list(plugins), evaluator=None, **more,
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    return model
"""

LOSS = """
class Watched(BFPPlugin):
    seen = []
    def before_backward(self, strategy, **more):
        before = float(strategy.loss.detach())
        super().before_backward(strategy, **more)
        if self._old is None:
            assert float(strategy.loss.detach()) == before  # silent in the first experience
            return
        h = self._features["new"].detach()
        body = torch.nn.Sequential(torch.nn.Flatten(), self._old.features)
        with torch.no_grad():
            old = body(strategy.mb_x)
            a = self.projection.project
            by_hand = ((h @ a.weight.T + a.bias - old) ** 2).sum(1).sqrt().mean() / 16 ** 0.5
        assert abs(float(by_hand) - self.loss) < 1e-6, (float(by_hand), self.loss)
        gain = float(strategy.loss.detach()) - before
        assert abs(gain - 3.0 * self.loss) < 1e-5
        self.seen.append((strategy.clock.train_exp_counter, self.loss))

trained(Watched(3.0))
assert {e for e, _ in Watched.seen} == {1, 2}, Watched.seen
for experience in (1, 2):  # the map learns, and starts anew
    losses = [loss for e, loss in Watched.seen if e == experience]
    assert losses[-1] < losses[0], losses
"""

SAME = """
plain, held = trained(), trained(BFPPlugin(0.0))
moved = trained(BFPPlugin(1.0))
for a, b, c in zip(plain.parameters(), held.parameters(), moved.parameters()):
    assert torch.equal(a, b)
assert not all(torch.equal(a, c) for a, c in zip(plain.parameters(), moved.parameters()))
trained(BFPPlugin(1.0, kind="identity"), replay=False)
"""

WRONG = """
from linsep.errors import ConfigError
try:
    trained(BFPPlugin(head="clasifier"))
except ConfigError as error:
    assert "Did you mean 'classifier'" in str(error), error
else:
    raise AssertionError("no such module")
"""

STREAMS = """
import linsep, tempfile
data, scenario = from_benchmark(benchmark, channels=1)
groups = [sorted(map(int, e.classes_in_this_experience)) for e in benchmark.train_stream]
assert scenario == {"per_task": 2}
assert [int(name) for name in data.names] == sum(groups, []), data.names
assert len(data.train) == len(data.test) == 72
with tempfile.TemporaryDirectory() as runs:
    settings = {"scenario": scenario, "method": "er+bfp", "memory": 12, "net": "mlp", "epochs": 1}
    run = linsep.train(settings, data=data, runs=runs)
    assert run.accuracy.shape == (3, 3)
"""

EXAMPLES = """
model = SimpleMLP(num_classes=6, input_size=64, hidden_size=16, drop_rate=0.0)
optimizer, criterion = torch.optim.SGD(model.parameters(), lr=0.1), torch.nn.CrossEntropyLoss()
SplitMNIST = lambda n_experiences: benchmark
"""
TRAINED = """
for experience in benchmark.train_stream:
    strategy.train(experience)
assert bfp in strategy.plugins
assert linsep.runs()[0].accuracy.shape == (3, 3)
"""
PAGE = Path(__file__).parents[1] / "docs" / "coming-from.md"
SHOWN = [block.text for block in blocks(PAGE) if "linsep.avalanche" in block.text]
SCRIPTS = {
    "loss": LOSS, "same": SAME, "wrong": WRONG, "streams": STREAMS,
    "page": "".join([EXAMPLES, *SHOWN, TRAINED]),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_bridge(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPERATORS + STAGE + SCRIPTS[name]],
        cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
