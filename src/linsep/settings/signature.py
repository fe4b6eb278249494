"""What a model or a recipe can be told: names, types, bounds, defaults and descriptions.

A recipe's keyword arguments are its options. A mistake is one line that names the field. All that
linsep prints or documents of a setting comes from here.
"""

import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from ..errors import ConfigError, printable, shortened, unknown

M = TypeVar("M", bound=BaseModel)


def complete(
    function: Callable[..., Any], given: Mapping[str, Any], where: str, beside: Iterable[str] = ()
) -> dict[str, Any]:
    """Return all options of a recipe: the given ones checked, the others at their defaults.

    `beside` are the fields of the section that the options share, which errors name too.
    """
    model = validate(model_of(function), given, where, beside)
    return {name: getattr(model, name) for name in type(model).model_fields}


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names of a recipe's options and their defaults."""
    return {p.name: p.default for p in _keywords(function)}


def validate(
    model: type[M], given: Mapping[str, Any], where: str = "", beside: Iterable[str] = ()
) -> M:
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise ConfigError(problem(error, where, model, beside)) from None


def _keywords(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.kind is p.KEYWORD_ONLY]


def model_of(function: Callable[..., Any]) -> type[BaseModel]:
    """Return the model of a recipe's options."""
    described = function.__init__ if inspect.isclass(function) else function
    hints = get_type_hints(described, include_extras=True)
    fields: dict[str, Any] = {
        p.name: (_lists_too(_hint(p, hints)), ... if p.default is p.empty else p.default)
        for p in _keywords(function)
    }
    strict = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)
    return create_model(f"{function.__name__} options", __config__=strict, **fields)


def _hint(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    """The type of an option; where the user's function names none, that of its default."""
    untyped = Any if parameter.default in (parameter.empty, None) else type(parameter.default)
    return hints.get(parameter.name, untyped)


def _lists_too(hint: Any) -> Any:
    """A tuple is written as a list in TOML; otherwise types are strict."""
    bare = hint.__origin__ if get_origin(hint) is Annotated else hint
    return Annotated[hint, Field(strict=False)] if tuple in (bare, get_origin(bare)) else hint


def problem(
    error: ValidationError,
    where: str = "",
    model: type[BaseModel] | None = None,
    beside: Iterable[str] = (),
) -> str:
    """Describe the first mistake in one line: what is wrong, where, and what would be right."""
    first, *others = error.errors(include_url=False)
    path = [*filter(None, [where]), *map(str, first["loc"])]
    more = f" (and {len(others)} more)" if others else ""
    if model is not None and first["type"] == "extra_forbidden":
        allowed = [*_fields(model, first["loc"][:-1]), *beside]
        return f"{'.'.join(path)}: {unknown('field', path[-1], allowed)}{more}"
    message = first["msg"].removeprefix("Value error, ").replace("Input should", "should", 1)
    message = re.sub(r"a valid dictionary or instance of \w+", "a table", message)
    message = message.replace("a valid tuple", "a list")
    plain = first["type"] in ("missing", "json_invalid")
    found = "" if plain else f", not {shortened(first['input'])}"
    return printable(": ".join(filter(None, [".".join(path), f"{message}{found}{more}"])))


def _fields(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The fields of the section that a path leads to."""
    for name in path:
        inner = _model(model.model_fields[str(name)])
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


# --- what a setting is ---------------------------------------------------------------------------

WORDS = {int: "integer", float: "number", str: "text", bool: "true or false", dict: "table"}


class Setting(NamedTuple):
    """One setting: 'training.lr', 'number in (0, 1e30]', 0.03, 'Learning rate.'"""

    name: str
    type: str
    default: Any
    line: str
    choices: tuple[str, ...] = ()  # the values that have names

    @property
    def default_text(self) -> str:
        """The default as a TOML file would have it; empty where there is none."""
        return "" if self.default is None else json.dumps(self.default)


def options(recipe: Callable[..., Any], part: str) -> list[Setting]:
    """The options of a recipe: its keyword arguments."""
    return list(fields_of(model_of(recipe), f"{part}."))


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[Setting]:
    """The fields of a model and of the models in it."""
    for name, info in model.model_fields.items():
        if (inner := _model(info)) is not None:
            yield from fields_of(inner, f"{prefix}{name}.")
        else:
            line = " ".join((info.description or "").split())
            default = info.get_default(call_default_factory=True, validated_data={})
            plain = None if info.is_required() else _plain(default)
            kind = _type(info.annotation, info.metadata)
            yield Setting(f"{prefix}{name}", kind, plain, line, tuple(_choices(info.annotation)))


def tables_of(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """The sections of a model, those in sections too, and what each is about."""
    found: dict[str, str] = {}
    for name, info in model.model_fields.items():
        if (inner := _model(info)) is not None:
            found[f"{prefix}{name}"] = (inner.__doc__ or "").partition("\n")[0]
            found |= tables_of(inner, f"{prefix}{name}.")
    return found


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


def _choices(hint: Any) -> Iterable[str]:
    if hint is bool:
        return ("true", "false")
    if get_origin(hint) is Literal:
        return map(str, get_args(hint))
    within = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    return itertools.chain.from_iterable(map(_choices, within))


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
