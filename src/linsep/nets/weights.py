"""Weights from a file of the user's: safetensors, or a state dict that torch saved.

Reading a file executes no code. Whatever does not fit is listed; only a head may be left over,
since the method brings its own head, as wide as there are classes.
"""

import io
import warnings
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as safetensors_load
from torch import Tensor, nn

from ..errors import ConfigError
from .net import Backbone

HEADS = ("fc", "classifier", "heads", "head", "head_dist", "last_linear")  # the usual names
OUTER = ("state_dict", "model_state_dict", "model", "net")  # dictionaries around it
PREFIXES = ("module.", "backbone.", "model.")  # of DataParallel, of our own runs, of wrappers
CENTRING = ("backbone.mean", "backbone.scale")  # of a frozen backbone, for its own head
State = Mapping[str, Tensor]
SHOWN = 3  # names of each kind of mismatch


class WeightsWarning(UserWarning):
    """Weights that were left out."""


def digest(path: str) -> str:
    return blake2b(_content(path), digest_size=8).hexdigest()


def read(path: str, expected: str | None) -> dict[str, Tensor]:
    """Read the tensors of a file by name; ConfigError if it is damaged, hostile or was changed."""
    content = _content(path)
    found = blake2b(content, digest_size=8).hexdigest()
    if expected and found != expected:
        raise ConfigError(
            f"net.weights: {path} was changed since this run was planned or begun (its digest is "
            f"{found}, not {expected}); restore it, or start a new run with it"
        )
    try:
        if Path(path).suffix == ".safetensors":
            return safetensors_load(content)
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file may raise nearly anything
        reason = str(error).strip().partition("\n")[0][:120] or type(error).__name__
        raise ConfigError(f"net.weights: {path} holds no weights: {reason}") from error
    return _tensors(state, path)


def fit(backbone: Backbone, given: State, path: str) -> None:
    """Load the weights into the backbone; ConfigError lists what is missing or does not fit."""
    body = backbone.get_submodule(backbone.inside) if backbone.inside == "module" else backbone
    wanted = body.state_dict()
    inside = {n: v for n, v in given.items() if n in wanted or n not in CENTRING}
    found = _without_prefixes(inside, wanted)
    over = [name for name in found if name not in wanted]
    head = [name for name in over if name.partition(".")[0] in HEADS]
    counters = [name for name in wanted if name.endswith("num_batches_tracked")]
    missing = [name for name in wanted if name not in found and name not in counters]
    shared = [name for name in wanted if name in found]
    bad = [_misfit(name, found[name], wanted[name]) for name in shared]
    problems = {
        "missing": missing,
        "unexpected": [name for name in over if name not in head],
        "of another shape": [text for text in bad if text],
    }
    if any(problems.values()):
        listed = "; ".join(f"{kind}: {_some(names)}" for kind, names in problems.items() if names)
        raise ConfigError(f"net.weights: {path} does not fit the net. {listed}")
    body.load_state_dict({name: found[name] for name in shared}, strict=False)
    if head:
        text = f"the head of {path} is left out ({_some(head)}); the method has its own"
        warnings.warn(f"net.weights: {text}", WeightsWarning, stacklevel=2)


def fit_head(head: nn.Linear, given: State, path: str) -> None:
    """Load the last linear layer of a file into a head of the same shape."""
    names = [n for n in given if n.endswith("weight") and set(n.split(".")) & set(HEADS)]
    fitting = [n for n in names if given[n].shape == head.weight.shape]
    if not fitting:
        shapes = ", ".join(f"{n} of {_size(given[n])}" for n in names) or "none"
        raise ConfigError(
            f"net.weights: {path} has no head of {_size(head.weight)}, a row for each class; found "
            f"{shapes}"
        )
    weight = given[fitting[-1]]
    bias = given.get(f"{fitting[-1].removesuffix('weight')}bias", torch.zeros(len(weight)))
    for name, found, wanted in (("weight", weight, head.weight), ("bias", bias, head.bias)):
        if problem := _misfit(name, found, wanted.detach()):
            raise ConfigError(f"net.weights: {path}: {problem}")
    head.load_state_dict({"weight": weight, "bias": bias})


def _content(path: str) -> bytes:
    place = Path(path).expanduser()
    if place.suffix not in (".safetensors", ".pt", ".pth"):
        raise ConfigError(f"net.weights: {path} should be a .safetensors, .pt or .pth file")
    if not place.is_file():
        raise ConfigError(f"net.weights: there is no file {path}")
    return place.read_bytes()


def _tensors(state: Any, path: str) -> dict[str, Tensor]:
    """Find the state dict in what was saved, and check it."""
    for name in OUTER:
        if isinstance(state, Mapping) and isinstance(state.get(name), Mapping):
            state = state[name]
    if not isinstance(state, Mapping) or not state:
        found = type(state).__name__
        raise ConfigError(f"net.weights: {path} holds no state dict, but a {found}")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            found = type(value).__name__
            raise ConfigError(f"net.weights: {path}: {str(name)[:60]!r} is no tensor, but {found}")
        if value.is_meta:
            raise ConfigError(f"net.weights: {path}: {name[:60]!r} has a shape and no values")
    return dict(state)


def _without_prefixes(given: State, wanted: State) -> State:
    """Strip prefixes that training loops add to every name, unless the net has them itself."""
    for _ in PREFIXES:
        for prefix in PREFIXES:
            body = {k.removeprefix(prefix): v for k, v in given.items() if k.startswith(prefix)}
            rest = {k: v for k, v in given.items() if not k.startswith(prefix)}
            plain = not any(name.startswith(prefix) for name in wanted)
            if body and plain and all(name.partition(".")[0] in HEADS for name in rest):
                given = body | rest
    return given


def _misfit(name: str, found: Tensor, wanted: Tensor) -> str:
    if found.shape != wanted.shape:
        return f"{name} is {_size(found)} and should be {_size(wanted)}"
    if found.is_floating_point() != wanted.is_floating_point():
        return f"{name} is {found.dtype} and should be {wanted.dtype}"
    return "" if torch.isfinite(found).all() else f"{name} is not finite"


def _size(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(sorted(names)[:SHOWN]) + more
