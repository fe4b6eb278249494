"""Whether logged predictions look like the learned images: classes, novelty, confidence.

Each is compared with the classifier's answers on its held-out images: confidence and novelty by the
Kolmogorov-Smirnov test, the shares of classes by a chi-squared test. The three share one level of
false alarms. How often images that did not change raise an alarm is measured: again and again, one
random half of the held-out images is compared with the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from torch import Tensor

from ..data.images import Images, join
from ..errors import DataError, StateError
from ..learning.learner import Learner
from ..learning.transport import Transported
from ..storage import files
from ..storage.manifest import Label, Number, Share, Text
from .account import probabilities
from .novelty import Known, energy
from .predictive import Predictive

LEVEL = 0.01  # of false alarms, for the three together
FEWEST = 20  # predictions, or held-out images, without which a test would tell nothing
TRIALS = 200
FOLDS = 10
LARGEST = 2**30  # bytes of a log


class Entry(BaseModel):
    """A line of a log."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    when: Text
    model: Text  # the digest
    file: Text
    label: Label | None = Field(alias="class")
    probability: Share
    novelty: Annotated[Number | None, Field()]


_ENTRY = TypeAdapter(Entry)


@dataclass(frozen=True)
class Answers:
    """Of images, in one order."""

    labels: NDArray[Any]  # the most probable
    confidence: NDArray[np.float64]
    novelty: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[Any]) -> Answers:
        return Answers(*(column[rows] for column in (self.labels, self.confidence, self.novelty)))


class HeldOut(NamedTuple):
    """The held-out images: what they are, the probability of each class, and novelty."""

    truth: NDArray[Any]
    p: NDArray[np.float64]  # a column for each of classes_
    novelty: NDArray[np.float64]


class Finding(NamedTuple):
    """One comparison: the p-value, what it was, and what it is."""

    what: str
    before: str
    now: str
    p: float

    @property
    def changed(self) -> bool:
        return self.p < LEVEL / 3


class Drift(NamedTuple):
    findings: list[Finding]
    images: int  # in the log
    held_out: int
    false_alarms: float  # the share of trials without a change that raised an alarm


# --- the log --------------------------------------------------------------------------------------


def append(log: Path, digest: str, rows: Sequence[tuple[str, Any, float, float]]) -> None:
    """Add predictions (file, class, probability, novelty) of a model to a log, a line each."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    lines = [
        json.dumps({
            "when": when, "model": digest, "file": file, "class": label, "probability": p,
            "novelty": strange if np.isfinite(strange) else None,
        })
        for file, label, p, strange in rows
    ]  # fmt: skip
    files.put(log, "".join(f"{line}\n" for line in lines).encode())


def logged(log: Path, digest: str) -> Answers:
    """The predictions that a model wrote into a log; those of other models are left out."""
    found = []
    for number, line in enumerate(files.read(log, LARGEST).splitlines(), start=1):
        entry = files.parsed(f"{log}, line {number}", line, _ENTRY)
        if entry.model == digest and entry.probability is not None and entry.novelty is not None:
            found.append(entry)
    if len(found) < FEWEST:
        raise DataError(
            f"{log} has {len(found)} predictions of this model; at least {FEWEST} are needed"
        )
    return Answers(
        np.array([str(entry.label) for entry in found]),
        np.array([entry.probability for entry in found], np.float64),
        np.array([entry.novelty for entry in found], np.float64),
    )


# --- the comparison -------------------------------------------------------------------------------


def held_out(clf: Predictive) -> HeldOut:
    """What a classifier says of the images that it holds out."""
    course = clf.course_
    learner, columns = course.learner, np.asarray(clf.columns_)
    parts = [group.test for group in course.groups if len(group.test)]
    if learner is None or not parts:
        raise StateError("the classifier holds out no images that it could be measured on")
    scores = np.concatenate([learner.predict(part).double().cpu().numpy() for part in parts])
    every = torch.from_numpy(scores)
    order = [clf.columns_.index(label) for label in clf.classes_.tolist()]
    p = probabilities(every, clf.temperature_).numpy()[:, order]
    strange = _novelty(clf, learner, join(parts), every)
    truth = columns[np.concatenate([part.y.numpy() for part in parts])]
    return HeldOut(truth, p, strange)


def _novelty(clf: Predictive, learner: Learner, tested: Images, scores: Tensor) -> NDArray[Any]:
    """Of held-out images as if they were new: each is left out of the statistics it is compared to.

    These come from the kept images, of which it is one; new images are a little further away.
    """
    known = clf.known_
    if known is None:
        return energy(scores, clf.temperature_)
    features = learner.embed(tested).cpu()
    if isinstance(learner.predictor, Transported):  # statistics of training images alone
        return known.distance(features)
    replayed = learner.memory.images()
    kept, fold = learner.embed(replayed).cpu(), torch.arange(len(tested)) % FOLDS
    strange = np.empty(len(tested))
    for place in range(FOLDS):
        others = fold != place
        some = torch.cat([kept, features[others]]), torch.cat([replayed.y, tested.y[others]])
        strange[~others.numpy()] = Known.of(*some).distance(features[~others])
    return strange


def drift(clf: Predictive, now: Answers) -> Drift:
    """Compare predictions with those on held-out images."""
    kept = held_out(clf)
    if len(kept.truth) < 2 * FEWEST:
        raise StateError(
            f"the classifier holds out {len(kept.truth)} images; drift needs {2 * FEWEST} or more"
        )
    classes = np.array([str(label) for label in clf.classes_.tolist()])
    before = Answers(classes[kept.p.argmax(1)], kept.p.max(1), kept.novelty)
    rng, half = np.random.default_rng(0), len(before) // 2
    alarms = 0
    for _ in range(TRIALS):
        order = rng.permutation(len(before))
        some, others = before.take(order[:half]), before.take(order[half:][: len(now)])
        alarms += any(found.changed for found in _compared(some, others))
    return Drift(_compared(before, now), len(now), len(before), alarms / TRIALS)


def _compared(before: Answers, now: Answers) -> list[Finding]:
    from scipy.stats import ks_2samp

    found = [_classes(before.labels, now.labels)]
    for what, a, b in (
        ("confidence", before.confidence, now.confidence),
        ("novelty", before.novelty, now.novelty),
    ):
        old, new = (f"median {np.median(values):.3g}" for values in (a, b))
        found.append(Finding(what, old, new, float(ks_2samp(a, b, method="asymp").pvalue)))
    return found


def _classes(before: NDArray[Any], now: NDArray[Any]) -> Finding:
    """Shares of classes; the one that changed most is named."""
    from scipy.stats import chi2_contingency

    names = np.unique(np.concatenate([before, now]))
    counts = np.array([[np.sum(part == name) for name in names] for part in (before, now)])
    shares = counts / counts.sum(1, keepdims=True)
    most = int(np.abs(shares[1] - shares[0]).argmax())
    p = float(chi2_contingency(counts).pvalue) if len(names) > 1 else 1.0
    old, new = (f"{100 * share:.0f} % {names[most]}" for share in shares[:, most])
    return Finding("classes", old, new, p)
