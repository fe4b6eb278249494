"""A course as named tensors, and back: what predicts, and what is kept of the past.

    weights   net.*, predictor.*, terms.*, seen; eval_copy.* if that predicts in the net's place
    memory    memory.*, the method's; tested.<task>.x and .y, the rows that were held out

Between tasks the previous network equals the present one, optimisers are empty, and a term that
each task resets has nothing to keep: none of them is stored. What is read is compared by name with
a learner of the same config that takes no memory, before anything of that size is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..data.images import Images, dtype_of
from ..data.tasks import Group
from ..errors import StateError
from ..learning.learner import Learner
from ..resolve import without_weights
from ..settings import sections
from ..settings.config import Config
from .course import Course

Tensors = Mapping[str, Tensor]
ROOM = 2**30  # bytes that any memory may take
MOST_ROOM = 100  # times the bytes of what it holds


def weights_of(learner: Learner) -> dict[str, Tensor]:
    return _flat(_weights(learner))


def memory_of(course: Course, learner: Learner) -> dict[str, Tensor]:
    kept = {name: torch.as_tensor(value) for name, value in learner.memory.state_dict().items()}
    held = [{"x": group.test.pixels(), "y": group.test.y} for group in course.groups]
    return _flat({"memory": kept, "tested": {str(i): part for i, part in enumerate(held)}})


def restore(
    course: Course, groups: Sequence[Sequence[int]], weights: Tensors, memory: Tensors | None
) -> None:
    """Give a course its learner; StateError if a tensor is not what the config asks for.

    One that lacks its memory gets no table for one: none will come.
    """
    columns, config = len(course.labels), _lean(course.config) if course.lacking else course.config
    # Images, labels, a column more, and logits.
    room = config.memory.size * (math.prod(course.shape) + 16 + 4 * columns)
    if room > max(ROOM, MOST_ROOM * sum(kept.nbytes for kept in (memory or {}).values())):
        raise StateError(f"memory.size: {config.memory.size} is out of proportion to what is kept")
    made = replace(course, config=_offline(config))
    learner = made.learner_for(columns) if _foreign(course) else None
    plan = learner or _plan(made, columns)
    _compare(weights, weights_of(plan), finite=learner is None or course.module is None)
    if weights["seen"].nonzero()[:, 0].tolist() != sorted({c for group in groups for c in group}):
        raise StateError("seen: is not what was learned")
    state: dict[str, Any] = {}
    if memory is not None:
        state["memory"] = _memory(plan, memory, {c for group in groups for c in group})
        held = [_held(plan, g, memory, f"tested.{i}") for i, g in enumerate(groups)]
        course.groups = tuple(held)
        known = {f"memory.{name}" for name in state["memory"]}
        known |= {f"tested.{i}.{part}" for i in range(len(groups)) for part in "xy"}
        if strays := memory.keys() - known:
            raise StateError(f"{min(strays)} is not one of a memory's tensors")
    course.learner = learner or made.learner_for(columns)
    if memory is None:
        course.groups = tuple(Group(tuple(g), course.nothing()) for g in groups)
    _load(course.learner, weights, state)


def _foreign(course: Course) -> bool:
    """Whether the net is a library's or the user's: as large as they made it, and not all of those
    can be planned.
    """
    return course.module is not None or "/" in course.config.net.name


def _load(learner: Learner, weights: Tensors, state: dict[str, Any]) -> None:
    known = _weights(learner)
    found = {name: _named(weights, f"{name}.") for name in ("net", "predictor", "eval_copy")}
    terms = {name: term.state_dict() for name, term in learner.terms.items()}
    lasting = {name: _named(weights, f"terms.{name}.") for name in known["terms"]}
    empty = learner.memory.state_dict()
    learner.load_state_dict(
        {"memory": empty, "terms": terms | lasting, "previous_net": found["net"]}
        | found | {"seen": weights["seen"]} | state
    )  # fmt: skip


def _weights(learner: Learner) -> dict[str, Any]:
    """By kind; state dictionaries hold views, so nothing is copied yet."""
    lasting = {name: t.state_dict() for name, t in learner.terms.items() if t.lasting}
    return {
        "net": learner.net.state_dict(),
        "predictor": learner.predictor.state_dict(),
        "terms": lasting,
        "seen": learner.seen,
        **({} if learner.eval_copy is None else {"eval_copy": learner.eval_copy.state_dict()}),
    }


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, value in tree.items():
        inner = isinstance(value, Mapping)
        found |= _flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return found


def _named(tensors: Tensors, prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


# --- checks before anything is made ---------------------------------------------------------------


def _compare(found: Tensors, wanted: Tensors, finite: bool = True) -> None:
    if missing := sorted(wanted.keys() - found.keys()):
        raise StateError(f"{missing[0]} is missing")
    if strays := sorted(found.keys() - wanted.keys()):
        raise StateError(f"{strays[0]} is not part of this model")
    for name, value in wanted.items():
        _check(name, found[name], value.shape, value.dtype, finite)


def _check(
    name: str, value: Tensor, shape: Sequence[int], dtype: torch.dtype, finite: bool = True
) -> None:
    if tuple(value.shape) != tuple(shape) or value.dtype != dtype:
        found, wanted = f"{value.dtype} {tuple(value.shape)}", f"{dtype} {tuple(shape)}"
        raise StateError(f"{name} is {found}; should be {wanted}".replace("torch.", ""))
    if finite and value.is_floating_point() and not torch.isfinite(value).all():
        raise StateError(f"{name} is not finite everywhere")


def _memory(plan: Learner, tensors: Tensors, seen: set[int]) -> dict[str, Any]:
    """The state of the method's memory; its rows are of classes that were learned."""
    found, columns = _named(tensors, "memory."), plan.memory.columns
    wanted = plan.memory.state_dict()
    if found.keys() != wanted.keys():
        raise StateError(f"memory: has {', '.join(sorted(found))}; needs {', '.join(wanted)}")
    rows = len(found["y"]) if found["y"].ndim else -1
    if not 0 <= rows <= plan.memory.capacity:
        raise StateError(f"memory: has {rows} rows; at most {plan.memory.capacity}")
    for name, column in columns.items():
        _check(f"memory.{name}", found[name], (rows, *column.shape[1:]), column.dtype)
    if set(found["y"].tolist()) - seen:
        raise StateError("memory.y: names classes that were not learned")
    if "order" in found:
        _check("memory.order", found["order"], (rows,), torch.int64)
        if not torch.equal(found["order"].sort().values, torch.arange(rows)):
            raise StateError("memory.order: should name each row once")
    if "seen" in found:
        _check("memory.seen", found["seen"], (), torch.int64)
        offered = int(found["seen"])
        if rows != min(offered, plan.memory.capacity) or offered >= 2**50:
            raise StateError(f"memory.seen: {offered} offered, but {rows} rows are kept")
    return found | ({"seen": int(found["seen"])} if "seen" in found else {})


def _held(plan: Learner, classes: Sequence[int], tensors: Tensors, name: str) -> Group:
    """The rows that a lesson held out."""
    x, y = (tensors.get(f"{name}.{part}") for part in ("x", "y"))
    if x is None or y is None or not x.ndim:
        raise StateError(f"{name} is missing")
    _check(f"{name}.x", x, (len(x), *plan.spec.raw), dtype_of(plan.spec.raw))
    _check(f"{name}.y", y, (len(x),), torch.int64)
    if set(y.tolist()) - set(classes):
        raise StateError(f"{name}.y: names classes of another lesson")
    return Group(tuple(classes), Images.of(x, y))


# --- a learner without contents -------------------------------------------------------------------


def _plan(course: Course, columns: int) -> Learner:
    """A learner whose tensors have shapes and types, and take no memory."""
    compute = course.config.compute.model_copy(update={"device": "meta", "compile": False})
    nowhere = course.config.model_copy(update={"compute": compute})
    prepared = replace(course, config=nowhere).prepared(columns)
    try:
        with torch.device("meta"), _Unfilled():
            return prepared.learner()
    except (RuntimeError, OverflowError, MemoryError):  # sizes that torch cannot count
        raise StateError("its config asks for a net that cannot be made") from None


class _Unfilled(TorchFunctionMode):
    """Leaves out random numbers that nobody would see: asking for them costs a second of imports"""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return args[0] if func is Tensor.normal_ else func(*args, **(kwargs or {}))


def _lean(config: Config) -> Config:
    return config.model_copy(update={"memory": sections.Memory(size=0)})


def _offline(config: Config) -> Config:
    """Weights come from the model's file: none are fetched."""
    return config.model_copy(update={"net": without_weights(config.net)})
