"""Choose the defaults of `+transport` on held-out training images; the record is a CSV file.

    linsep grid studies/tune_transport.toml --data DIR --runs tuning
    python -m studies tune tuning --data DIR -o results/tuning/transport.csv

Every network that the grid has trained is looked at once: the features of each task's images before
and after the task, and those of the images held out. Then each candidate, one option away from the
defaults, carries the statistics and predicts.
"""

import copy
import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from linsep.data.images import Images
from linsep.errors import ConfigError
from linsep.grids.plan import expand, in_parts
from linsep.learning.logistic import fit_logistic, mean_and_deviation
from linsep.learning.method import AddOn, Method
from linsep.learning.model import Predictor
from linsep.learning.statistics import shrunk
from linsep.learning.terms import TaskContext
from linsep.learning.transport import Transported
from linsep.methods import assemble
from linsep.nets.net import Output, Spec
from linsep.prepare import prepare
from linsep.settings.config import from_settings, nest_options
from linsep.settings.layers import flat, merged, read

from .results import Repeated, trained_alike

GRID = Path(__file__).with_suffix(".toml")
DRAWN = 500  # features of each class that a logistic head is fitted to
NONE = torch.arange(0)
Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Candidate:
    """Options of `+transport`, and what no option offers."""

    options: Mapping[str, Any]
    features: Change = lambda z: z
    logistic: bool = False
    stored: bool = True


CANDIDATES = {"default": Candidate({})} | {
    f"{name}={value}": Candidate({name: value})
    for name, values in {
        "ridge": (0.003, 0.03, 3.0, 30.0),
        "residual": (0.0, 1.0, 2.0),
        "shrinkage": (0.01, 0.03, 0.2, 0.3),
        "map": ("none", "bfp", "sdc", "dpcr"),
        "covariance": ("none", "class"),
    }.items()
    for value in values
}
CANDIDATES |= {
    **{f"map=sdc sigma={s}": Candidate({"map": "sdc", "sigma": s}) for s in (0.1, 1.0)},
    **{f"map=dpcr gamma={g}": Candidate({"map": "dpcr", "gamma": g}) for g in (2.0, 20.0, 2000.0)},
    **{
        f"covariance=class pooling={p}": Candidate({"covariance": "class", "pooling": p})
        for p in (0.5, 0.95)
    },
    "features normalised": Candidate({}, features=F.normalize),
    "logistic head": Candidate({}, logistic=True),
    "logistic head, covariance=class": Candidate({"covariance": "class"}, logistic=True),
    "without stored images": Candidate({}, stored=False),
}


class Watching(Predictor):
    """Keeps the features that `+transport` would look at, task by task."""

    looks_back = True

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.spec, self.seen = spec, list[SimpleNamespace]()

    def fit(self, context: TaskContext, exemplars: Images) -> None:
        assert context.before is not None
        sets = {"train": context.task.train, "stored": exemplars.select(context.task.earlier)}
        looks = {"look": context.evaluate, "before": context.before}
        found = {
            (name, place): look(images).features if len(images) else torch.zeros(0)
            for place, images in sets.items()
            for name, look in looks.items()
        }
        terms = tuple(copy.deepcopy(term) for term in context.terms)
        self.seen.append(SimpleNamespace(task=context.task, sets=sets, found=found, terms=terms))


def watching() -> AddOn:
    def added(method: Method) -> Method:
        return replace(method, predictor=Watching)

    return added


def watched(settings: Mapping[str, Any], runs: Path, opened: dict[str, Any]) -> Any:
    """A trained network's features: of every task as it ended, and of the held-out images."""
    trained = trained_alike(settings, runs, opened)
    if trained is None:
        return None
    method = [*settings["method"].split("+"), watching]
    ruled = {**settings, "method": method, "evaluation": {"rule": "method"}}
    prepared = prepare(from_settings(ruled), lenient=True, opened=opened)
    run = Repeated(prepared.build(), trained)
    for _ in run:
        pass
    learner = run.learner
    tests = [(learner.embed(g.test), g.test.y) for g in run.scenario.groups]
    return SimpleNamespace(spec=learner.predictor.spec, tasks=learner.predictor.seen, tests=tests)


def accuracy(network: Any, candidate: Candidate) -> float:
    """Final average accuracy of Class-IL, in percent."""
    name = "ft+bfp+transport" if candidate.options.get("map") == "bfp" else "ft+transport"
    rule = assemble(name, {"transport": dict(candidate.options)}).predictor(network.spec)
    assert isinstance(rule, Transported)
    for seen in network.tasks:
        stored = seen.sets["stored"]
        rule.fit(context(seen, candidate), stored if candidate.stored else stored.take(NONE))
    scores = logistic(rule) if candidate.logistic else lambda z: rule(Output(z, z, {}))
    right = [
        (scores(candidate.features(z)).argmax(1) == y).double().mean() for z, y in network.tests
    ]
    return float(100 * torch.stack(right).mean())


def context(seen: Any, candidate: Candidate) -> Any:
    def looked(which: str, images: Images) -> Output:
        for place, whole in seen.sets.items():
            if images.sources is whole.sources:
                z = candidate.features(seen.found[which, place][position(whole, images)])
                return Output(z, z, {})
        raise LookupError("images that were not watched")

    return SimpleNamespace(
        task=seen.task, terms=seen.terms,
        evaluate=partial(looked, "look"), before=partial(looked, "before"),
    )  # fmt: skip


def position(whole: Images, part: Images) -> Tensor:
    """Where the rows of a part are among those of the whole."""
    order = whole.rows.argsort()
    return order[torch.searchsorted(whole.rows[order], part.rows)]


def logistic(rule: Transported) -> Callable[[Tensor], Tensor]:
    """A balanced logistic head on features drawn from the carried Gaussians."""
    statistics, known = rule.statistics, rule.statistics.known
    covariances = (
        statistics.covariances(rule.how.pooling)
        if statistics.per_class
        else statistics.covariance().expand(len(known), -1, -1)
    )
    lower = torch.linalg.cholesky(shrunk(covariances, rule.how.shrinkage))
    noise = torch.randn(
        len(known), DRAWN, lower.shape[1],
        generator=torch.Generator().manual_seed(0), dtype=torch.float64,
    )  # fmt: skip
    x = (statistics.mean[known, None] + noise @ lower.mT).flatten(0, 1)
    mean, deviation = mean_and_deviation(x)
    target = torch.arange(len(known)).repeat_interleave(DRAWN)
    found = fit_logistic((x - mean) / deviation, target, len(known), c=0.1, gap=1e-6)
    return lambda z: found.scores((z.double() - mean) / deviation)


def tune(runs: Path, output: Path, data: str | None, say: Callable[[str], None]) -> None:
    """Try every candidate on every trained network of the grid, and write the record."""
    opened: dict[str, Any] = {}
    rows = []
    placed = {"scenario": {"data": data}} if data else {}
    for settings in (one for part in in_parts(read(GRID)) for one in expand(part)):
        network = watched(nest_options(merged(settings, placed)), runs, opened)
        if network is None:
            say(f"not trained: {settings['method']}, seed {settings['seed']}")
            continue
        *_, last = settings["method"].split("+")
        options = flat({last: settings.get("options", {}).get(last, {})})
        trained = " ".join([settings["method"], *(f"{k}={v}" for k, v in options.items())])
        for name, candidate in CANDIDATES.items():
            try:
                found = accuracy(network, candidate)
            except (ConfigError, AssertionError):  # no map to invert
                continue
            rows.append((trained, settings["seed"], name, round(found, 2)))
        say(f"{trained} seed {settings['seed']}")
    with output.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [("training", "seed", "candidate", "held-out Class-IL FAA"), *rows]
        )
