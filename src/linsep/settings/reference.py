"""Every setting with its type, range, default and description, read off the models themselves.

Knows the sections and how to read a recipe's signature. Knows no recipe: who lists them hands them
in. What linsep prints or documents of a setting comes from here.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from .config import Config
from .names import SHORT
from .signature import model_of

WORDS = {int: "integer", float: "number", str: "text", bool: "true or false", dict: "table"}


class Setting(NamedTuple):
    """One setting: 'training.lr', 'number in (0, 1e30]', 0.03, 'Learning rate.'"""

    name: str
    type: str
    default: Any
    line: str

    @property
    def default_text(self) -> str:
        """The default as a TOML file would have it; empty where there is none."""
        return "" if self.default is None else json.dumps(self.default)


@cache
def settings() -> tuple[Setting, ...]:
    """The settings of a config, in the order of its sections."""
    return tuple(fields_of(Config))


def sections() -> dict[str, str]:
    """The names of a config's sections, nested ones too, and what they are about."""
    return {name: (model.__doc__ or "").partition("\n")[0] for name, model in _sections(Config)}


def options(recipe: Callable[..., Any], part: str) -> list[Setting]:
    """The options of a recipe: its keyword arguments."""
    return list(fields_of(model_of(recipe), f"{part}."))


def described(name: str) -> str:
    """The description of a config's setting."""
    return next(setting.line for setting in settings() if setting.name == name)


def unknown_setting(name: str) -> str:
    """'unknown setting 'momentum'. Did you mean 'training.momentum'? ...'."""
    full = [setting.name for setting in settings()]
    known = {field.rpartition(".")[2]: field for field in reversed(full)} | {f: f for f in full}
    known |= {short: short for short in SHORT}
    words = name.replace("_", " ").lower()  # 'learning_rate' is no name, but says what is meant
    meant = [setting.name for setting in settings() if setting.line.lower().startswith(words)]
    close = get_close_matches(name, known, n=1, cutoff=0.6) or meant
    hint = f" Did you mean {known[close[0]]!r}?" if close else ""
    return f"unknown setting {name!r}.{hint} `linsep list settings` lists all"


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[Setting]:
    """The fields of a model and of the models in it."""
    for name, info in model.model_fields.items():
        if (inner := _model(info)) is not None:
            yield from fields_of(inner, f"{prefix}{name}.")
        else:
            line = " ".join((info.description or "").split())
            default = info.get_default(call_default_factory=True, validated_data={})
            plain = None if info.is_required() else _plain(default)
            yield Setting(f"{prefix}{name}", _type(info.annotation, info.metadata), plain, line)


def _sections(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    for name, info in model.model_fields.items():
        if (inner := _model(info)) is not None:
            yield f"{prefix}{name}", inner
            yield from _sections(inner, f"{prefix}{name}.")


def _model(info: FieldInfo) -> type[BaseModel] | None:
    """The section that a field holds, or may hold."""
    for found in (info.annotation, *get_args(info.annotation)):
        if isinstance(found, type) and issubclass(found, BaseModel):
            return found if get_origin(info.annotation) in (None, Union, UnionType) else None
    return None


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _type(hint: Any, limits: Sequence[Any] = ()) -> str:
    """'integer in [1, 1e9]', 'natural or shuffled', 'list of text'."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        within = [one.metadata if isinstance(one, FieldInfo) else [one] for one in inner[1:]]
        return _type(inner[0], [*itertools.chain(*within), *limits])
    if origin in (Union, UnionType):
        return " or ".join(_type(one, limits) for one in inner if one is not NoneType)
    if origin is Literal:
        return " or ".join(map(str, inner))
    if origin in (tuple, list):
        return f"list of {_type(inner[0])}"
    word = WORDS.get(origin or hint, getattr(hint, "__name__", str(hint)))
    return f"{word} in {_range(limits)}" if _range(limits) else word


def _range(limits: Sequence[Any]) -> str:
    """'[0, 1)': a square bracket includes the bound, a round one does not."""
    ends = {n: getattr(m, n) for m in limits for n in ("ge", "gt", "le", "lt") if hasattr(m, n)}
    if not ends:
        return ""
    low = f"[{_number(ends['ge'])}" if "ge" in ends else f"({_number(ends.get('gt', '-inf'))}"
    high = f"{_number(ends['le'])}]" if "le" in ends else f"{_number(ends.get('lt', 'inf'))})"
    return f"{low}, {high}"


def _number(bound: Any) -> str:
    if bound == 2**63:
        return "2^63"
    return bound if isinstance(bound, str) else f"{bound:.6g}".replace("e+0", "e").replace("+", "")
