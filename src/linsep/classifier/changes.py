"""Changes of mind: classes and images that are forgotten, renamed, merged or labelled anew.

Each function returns a changed course, and leaves the one it is given as it is. Stored samples and
held-out images change exactly. So do class statistics: without a class they are what they would be
had it never been learned, where each class's are kept apart. Weights that were trained on an image
stay trained on it; a head that is fitted to the stored samples can be fitted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from ..data.images import Images, digests
from ..data.tasks import Group, Task
from ..errors import ConfigError, StateError, shortened, unknown
from ..learning.learner import Learner
from ..learning.logistic import Refitted
from ..learning.memory import with_rows
from ..learning.model import NearestMean
from ..learning.resizing import shrink
from ..learning.statistics import RandomRidge
from ..learning.transport import Transported
from .account import remeasured
from .course import Course, check_names

CLOSE = 1e-4  # of two features of one image, as a share of their size
Labels = Callable[[Any], Any]  # from a label to what it is from now on; None: nothing


def forget(course: Course, labels: Sequence[Any], refit: bool = False) -> tuple[Course, list[str]]:
    """The course without some classes, and what remains of them."""
    gone = [_column(course, label) for label in labels]
    if not set(course.seen) - set(gone):
        raise StateError("every class would be forgotten; delete the model instead")
    learner = _own(course)
    exact = [_drop(learner, c) for c in gone]
    names = set(labels)
    changed = _without(course, learner, dict.fromkeys(gone), lambda b: None if b in names else b)
    notes = [] if all(exact) else ["The weights were trained on these classes and still are."]
    if course.params.like is None and set(gone) & set(course.groups[0].classes):
        notes.append("Pixels are normalised as the first lesson was, which had images of them.")
    if refit:
        _refit(changed)
    return _done(changed, "forget", f"forgot {len(gone)} class{'es' * (len(gone) > 1)}"), notes


def forget_images(course: Course, rows: Tensor, refit: bool = False) -> tuple[Course, list[str]]:
    """The course without some images, and what remains of them."""
    learner = _own(course)
    state = learner.memory.state_dict()
    stored = ~_among(torch.as_tensor(state["x"]), rows)
    learner.memory.load_state_dict(with_rows(state, stored))
    kept = [~_among(group.test.pixels(), rows) for group in course.groups]
    groups = tuple(
        Group(group.classes, group.test.take(mask.nonzero()[:, 0]))
        for group, mask in zip(course.groups, kept, strict=True)
    )
    changed = replace(course, learner=learner, groups=groups, key=None)
    if refit:
        _refit(changed)
    held = sum(int((~mask).sum()) for mask in kept)
    notes = [f"Removed {int((~stored).sum())} stored samples and {held} held-out images."]
    what = "class statistics" if _of_statistics(learner) else "weights"
    notes.append(f"The {what} have learned from the images and still know what they learned.")
    seen = [digest.hex() for digest in digests(rows)]
    return _done(changed, "forget", f"forgot {len(rows)} images", seen), notes


def rename(course: Course, old: Any, new: Any) -> tuple[Course, list[str]]:
    """The course with another name of a class."""
    column = _column(course, old)
    check_names([new])
    if new in course.labels:
        raise ConfigError(f"{shortened(new)} is a class already; to join two classes, merge them")
    labels = [new if c == column else label for c, label in enumerate(course.labels)]
    history = _told(course, lambda label: new if label == old else label)
    return _done(replace(course, labels=labels, history=history), "rename", "renamed a class"), []


def merge(course: Course, one: Any, into: Any) -> tuple[Course, list[str]]:
    """The course with two classes as one: exact for statistics and for rules of stored samples."""
    gone, other = _column(course, one), _column(course, into)
    if gone == other:
        raise ConfigError(f"{shortened(one)} cannot be merged with itself")
    learner = _own(course)
    rule, state = learner.predictor, learner.memory.state_dict()
    if isinstance(rule, Transported):
        rule.statistics.absorb(gone, other)
    elif isinstance(rule, RandomRidge):
        rule.absorb(gone, other)
    elif not _refittable(learner):
        raise StateError(
            f"the method {course.config.method} predicts by its trained head, which tells the two "
            "classes apart; models with +refit or +transport can merge classes"
        )
    if "logits" in state:
        both = state["logits"][:, [gone, other]].logsumexp(1)
        state["logits"][:, other] = both
        learner.memory.load_state_dict(state)
    changed = _without(course, learner, {gone: other}, lambda b: into if b == one else b)
    if _refittable(learner):
        _refit(changed)
    return _done(changed, "merge", "merged two classes"), []


def relabel(course: Course, rows: Tensor, labels: Sequence[Any]) -> tuple[Course, list[str]]:
    """The course with other labels of some stored samples and held-out images."""
    columns = [_column(course, label) for label in labels]
    learner = _own(course)
    if _of_statistics(learner):
        raise StateError(
            "class statistics are sums over images, from which one image cannot be told; forget "
            "its class and teach it again"
        )
    state, found = learner.memory.state_dict(), torch.zeros(len(rows), dtype=torch.bool)
    state["y"] = _relabelled(torch.as_tensor(state["x"]), state["y"], rows, columns, found)
    groups = []
    for group in course.groups:
        x = group.test.pixels()
        y = _relabelled(x, group.test.y, rows, columns, found)
        groups.append(Group(tuple(dict.fromkeys([*group.classes, *y.tolist()])), Images.of(x, y)))
    if not found.any():
        raise StateError("none of these images is stored or held out; teach them in a lesson")
    if "order" in state:  # rows of a class lie together in it
        state["order"] = state["order"][state["y"][state["order"]].argsort(stable=True)]
    learner.memory.load_state_dict(state)
    history = [
        {**entry, "groups": [
            {**told, "classes": [course.labels[c] for c in group.classes]}
            for told, group in zip(entry["groups"], groups, strict=False)
        ]}
        for entry in course.history
    ]  # fmt: skip
    changed = replace(course, learner=learner, groups=tuple(groups), history=history, key=None)
    notes = [f"{int(found.sum())} of {len(rows)} images are stored, and have their new labels."]
    if _refittable(learner):
        _refit(changed)
    else:
        notes.append(
            "The trained head learned the old labels; it hears of the new in the next lesson."
        )
    return _done(changed, "relabel", f"labelled {int(found.sum())} images anew"), notes


def label_of(course: Course, word: str) -> Any:
    """The label that a word stands for: itself, or a number where labels are numbers."""
    named = {str(label): label for label in course.labels}
    if word in named:
        return named[word]
    if course.labels and isinstance(course.labels[0], str):
        return word
    try:
        return type(course.labels[0])(word)
    except ValueError:
        raise ConfigError(f"{shortened(word)}: the classes of this model are numbers") from None


# --- the inside -----------------------------------------------------------------------------------


def _column(course: Course, label: Any) -> int:
    known = [course.labels[c] for c in course.seen]
    if label not in known:
        raise ConfigError(unknown("class", str(label), list(map(str, known))))
    return course.labels.index(label)


def _own(course: Course) -> Learner:
    """A learner of one's own, with all that the course's knows."""
    return course.learner_for(len(course.labels))


def _of_statistics(learner: Learner) -> bool:
    return isinstance(learner.predictor, Transported | RandomRidge)


def _refittable(learner: Learner) -> bool:
    return isinstance(learner.predictor, Refitted | NearestMean)


def _refit(course: Course) -> None:
    """Fit the rule of prediction to the stored samples."""
    learner = course.learner
    assert learner is not None
    if not _refittable(learner):
        raise StateError(
            f"the method {course.config.method} has no head that is fitted to stored samples; "
            "models with +refit have one"
        )
    task = Task(len(course.groups) - 1, (), course.seen, course.nothing())
    learner.predictor.fit(learner.context(task, learner.eval_net), learner.memory.images())


def _drop(learner: Learner, column: int) -> bool:
    """Drop a class from the statistics; return whether the model is as if it had not learned it."""
    if not isinstance(learner.predictor, Transported):
        return False
    return learner.predictor.statistics.forget(column) and not learner.net.learns("backbone")


def _without(
    course: Course, learner: Learner, gone: Mapping[int, int | None], renamed: Labels
) -> Course:
    """The course without some columns, whose images are dropped or belong to another column."""
    kept = torch.tensor([c for c in range(len(course.labels)) if c not in gone])
    place = torch.full((len(course.labels),), -1)  # of each column; -1: none
    place[kept] = torch.arange(len(kept))
    for column, other in gone.items():
        place[column] = -1 if other is None else place[other]
    groups = [_placed(group, place) for group in course.groups]
    stays = [bool(group.classes) for group in groups]
    history = _told(course, renamed, stays)
    changed = replace(
        course, learner=None, labels=[course.labels[c] for c in kept.tolist()], history=history,
        groups=tuple(group for group, there in zip(groups, stays, strict=True) if there), key=None,
    )  # fmt: skip
    state = learner.memory.state_dict()
    memory = with_rows(state, place[state["y"]] >= 0)
    memory["y"] = place[memory["y"]]
    if "logits" in memory:
        memory["logits"] = memory["logits"][:, kept]
    changed.learner = changed.learner_for(len(kept))
    shrink(learner, changed.learner, kept, memory)
    if isinstance(changed.learner.predictor, Transported):
        changed.learner.predictor.decide()
    return changed


def _placed(group: Group, place: Tensor) -> Group:
    """A group of classes with the columns that they have from now on."""
    classes = [c for c in place[list(group.classes)].tolist() if c >= 0]
    y = place[group.test.y]
    rows = group.test.take((y >= 0).nonzero()[:, 0])
    return Group(tuple(dict.fromkeys(classes)), replace(rows, y=y[y >= 0]))


def _told(
    course: Course, renamed: Labels, stays: Sequence[bool] | None = None
) -> list[dict[str, Any]]:
    """The reports of the lessons that stay, with the labels that their classes have now."""
    stays = [True] * len(course.history) if stays is None else stays

    def named(labels: Sequence[Any]) -> list[Any]:
        return list(dict.fromkeys(b for b in map(renamed, labels) if b is not None))

    found = []
    for number, entry in enumerate(course.history):
        there = [told for told, stay in zip(entry["groups"], stays, strict=False) if stay]
        groups = [{**told, "classes": named(told["classes"])} for told in there]
        if stays[number]:
            found.append({**entry, "new": named(entry["new"]), "groups": groups})
    return found


def _among(rows: Tensor, given: Tensor) -> Tensor:
    """Which rows are of the given ones, (n,) bool: to the byte, or nearly so for features."""
    return _match(rows, given) >= 0


def _match(rows: Tensor, given: Tensor) -> Tensor:
    """The place of each row among the given ones, (n,); -1 where it is none of them."""
    if not len(rows) or not len(given):
        return torch.full((len(rows),), -1)
    if rows.dtype == torch.uint8:
        places = {digest: i for i, digest in enumerate(digests(given))}
        return torch.tensor([places.get(digest, -1) for digest in digests(rows)])
    away = torch.cdist(rows.flatten(1).double(), given.flatten(1).double())
    nearest = away.min(1)
    near = nearest.values <= CLOSE * (1 + rows.flatten(1).double().norm(dim=1))
    return torch.where(near, nearest.indices, -1)


def _relabelled(
    x: Tensor, y: Tensor, rows: Tensor, columns: Sequence[int], found: Tensor
) -> Tensor:
    """Labels of which those of the given rows are new; notes which rows were found."""
    places = _match(x, rows)
    found[places[places >= 0]] = True
    return torch.where(places >= 0, torch.tensor(columns)[places.clamp(min=0)], y)


def _done(course: Course, kind: str, what: str, images: Sequence[str] = ()) -> Course:
    """The course with the change noted, and measured anew where images are held out."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    noted = {"when": when, "kind": kind, "what": what, "images": list(images)}
    assert course.learner is not None
    last = remeasured(course.learner, course.groups, course.history[-1])
    history = [*course.history[:-1], last]
    return replace(course, history=history, changes=[*course.changes, noted])
