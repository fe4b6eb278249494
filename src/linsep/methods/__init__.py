"""The recipes, and the names by which a config asks for them.

A method is a function that returns a sum of terms; its keyword arguments are its options.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from .. import custom
from ..errors import ConfigError, shortened
from ..learning.method import Method
from ..settings.catalogue import ADDONS as ADDONS
from ..settings.catalogue import METHODS as METHODS
from ..settings.sections import Custom


@dataclass(frozen=True)
class Parts:
    """What a method's name stands for: its recipe, and those of its add-ons."""

    recipes: Mapping[str, Callable[..., Any]]  # by name, the method's first
    custom: Mapping[str, Custom]  # those of the user's: where they are, and their digests

    @property
    def name(self) -> str:
        """'derpp+bfp'; of a part of one's own, its function's name."""
        return "+".join(self.recipes)

    def assemble(self, options: Mapping[str, Mapping[str, object]]) -> Method:
        """The sum: each part called with its options."""
        _, *extras = self.recipes
        method = self.without_terms(options)
        for extra in extras:
            method = self._added(method, extra, options.get(extra, {}))
        return method

    def without_terms(self, options: Mapping[str, Mapping[str, object]]) -> Method:
        """The method alone."""
        base = next(iter(self.recipes))
        return self._added(None, base, options.get(base, {}))

    def _added(self, method: Method | None, part: str, options: Mapping[str, object]) -> Method:
        """The method with one part more; the first part is the method itself."""
        source = self.custom[part].source if part in self.custom else part
        with custom.calling(source, "method: ") if part in self.custom else nullcontext():
            made = self.recipes[part](**options)
            found = made if method is None else made(method) if callable(made) else None
        if not isinstance(found, Method):
            should = "a Method" if method is None else "an add-on, such as a WeightedTerm"
            raise ConfigError(f"method: {source} should return {should}, not {shortened(made)}")
        return found


def parts(
    name: str, known: Mapping[str, Custom] | None = None, objects: Mapping[str, Any] | None = None
) -> Parts:
    """'derpp+bfp' -> the recipes of derpp and bfp; every part is found, and named once.

    A part may be one of ours, one that a package offers, or one of the user's, as file.py:function.
    Of the latter, `known` has what a config remembers, and `objects` what was passed in Python.
    """
    recipes, mine = dict[str, Callable[..., Any]](), dict[str, Custom]()
    for place, named in enumerate(part.strip() for part in name.split("+")):
        registry = ADDONS if place else METHODS
        group: custom.Group = "addons" if place else "methods"
        short = custom.name_of(named)
        if short in recipes:
            raise ConfigError(f"method: {name!r} names the add-on {short!r} twice")
        if named in registry:
            recipes[named] = registry[named].recipe
            continue
        part = custom.find(group, named, known or {}, objects or {}, "method: ", registry)
        _check(short, part)
        recipes[short], mine[short] = part.make, Custom(source=part.source, digest=part.digest)
    return Parts(recipes, mine)


def _check(name: str, part: custom.Part) -> None:
    """Refuse a part of the user's that could be taken for one of ours, or whose options are not."""
    if name in METHODS or name in ADDONS:
        raise ConfigError(f"method: {part.source}: linsep has its own {name!r}; rename yours")
    parameters = inspect.signature(part.make).parameters.values()
    if any(p.kind is not p.KEYWORD_ONLY for p in parameters):
        should = f"options follow a star: def {name}(*, weight: float = 1.0)"
        raise ConfigError(f"method: {part.source}: {should}")


def assemble(name: str, options: Mapping[str, Mapping[str, object]]) -> Method:
    """The sum that a name stands for: each part called with its options."""
    return parts(name).assemble(options)
