"""A recipe's keyword arguments are its options: their names, types, bounds and defaults.

Knows functions and pydantic. Knows no recipe and no file. Errors are one line and name the field.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

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
        hint = model.model_fields[str(name)].annotation
        inner = [h for h in (hint, *get_args(hint)) if isinstance(h, type)]  # it may be optional
        tables = [h for h in inner if issubclass(h, BaseModel)]
        if not tables:
            return []
        model = tables[0]
    return list(model.model_fields)
