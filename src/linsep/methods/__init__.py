"""The recipes, and the names by which a config asks for them.

A method is a function that returns a sum of terms; its keyword arguments are its options.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from .. import own
from ..errors import ConfigError, shortened
from ..learning.method import Method
from ..settings.sections import Own
from .agem import agem
from .backward import bfp, bfp2, fd
from .bic import bic
from .ema import ema
from .er_ace import er_ace
from .ewc import ewc
from .fdr import fdr
from .gdumb import gdumb
from .icarl import icarl
from .joint import ft, jt
from .lode import lode
from .lucir import lucir
from .lwf import lwf
from .refit import refit
from .replay import der, derpp, er
from .ser import ser
from .si import si
from .star import star
from .transport import transport
from .wa import wa


@dataclass(frozen=True)
class About:
    """A line for `linsep list`, and where the idea comes from."""

    recipe: Callable[..., Any]  # gives a Method, or an Addition where it is added to one
    line: str
    source: str
    page: str = ""  # in docs/methods, if it is not the one that has its name


METHODS: dict[str, About] = {
    "ft": About(ft, "fine-tuning: plain SGD on each new task; the lower bound", "-"),
    "jt": About(jt, "joint training on all data; the upper bound", "-"),
    "er": About(er, "experience replay of stored images and labels", "Riemer et al., 2019"),
    "der": About(der, "replay of stored images with their logits", "Buzzega et al., 2020"),
    "derpp": About(derpp, "DER++: replay of labels and of logits", "Buzzega et al., 2020"),
    "er_ace": About(er_ace, "replay; the stream spares absent classes", "Caccia et al., 2022"),
    "icarl": About(icarl, "exemplars by herding, nearest-mean prediction", "Rebuffi et al., 2017"),
    "fdr": About(fdr, "outputs on stored rows stay what they were", "Benjamin et al., 2019"),
    "lucir": About(lucir, "cosine head, kept directions, margins", "Hou et al., 2019"),
    "bic": About(bic, "distillation, then a bias correction", "Wu et al., 2019"),
    "lwf": About(lwf, "distillation on new images, no memory", "Li and Hoiem, 2016"),
    "ewc": About(ewc, "online EWC: weights held by Fisher information", "Schwarz et al., 2018"),
    "si": About(si, "weights held by their part in past learning", "Zenke et al., 2017"),
    "agem": About(agem, "gradients projected against a stored reference", "Chaudhry et al., 2019"),
    "gdumb": About(gdumb, "a new net trained on the memory alone", "Prabhu et al., 2020"),
}


TERMS: dict[str, About] = {
    "bfp": About(bfp, "a linear map recovers the old features", "Gu et al., 2023"),
    "bfp2": About(bfp2, "the same with a two-layer map", "Gu et al., 2023", "bfp"),
    "fd": About(fd, "distillation: the map is the identity", "Gu et al., 2023", "bfp"),
    "ser": About(ser, "the old net's logits on new images", "Zhuo et al., 2023"),
    "lode": About(lode, "new against old classes weighs less", "Liang and Li, 2023"),
    "star": About(star, "replayed outputs hold if weights move", "Eskandar et al., 2025"),
    "ema": About(ema, "averaged weights predict", "Soutif-Cormerais et al., 2023"),
    "wa": About(wa, "new rows of the head as long as old ones", "Zhao et al., 2020"),
    "refit": About(refit, "a head fitted to the stored rows predicts", "Kang et al., 2020"),
    "transport": About(transport, "carried class statistics predict", "Hayes and Kanan, 2020"),
}


@dataclass(frozen=True)
class Parts:
    """What a method's name stands for: its recipe, and those of the terms that are added."""

    recipes: Mapping[str, Callable[..., Any]]  # by name, the method's first
    own: Mapping[str, Own]  # those of the user's: where they are, and their digests

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
        source = self.own[part].source if part in self.own else part
        with own.calling(source, "method: ") if part in self.own else nullcontext():
            made = self.recipes[part](**options)
            found = made if method is None else made(method) if callable(made) else None
        if not isinstance(found, Method):
            should = "a Method" if method is None else "a Summand"
            raise ConfigError(f"method: {source} should return {should}, not {shortened(made)}")
        return found


def parts(
    name: str, known: Mapping[str, Own] | None = None, held: Mapping[str, Any] | None = None
) -> Parts:
    """'derpp+bfp' -> the recipes of derpp and bfp; every part is found, and named once.

    A part may be one of ours, one that a package offers, or one of the user's, as file.py:function.
    Of the latter, `known` has what a config remembers, and `held` what was handed over in Python.
    """
    recipes, mine = dict[str, Callable[..., Any]](), dict[str, Own]()
    for place, named in enumerate(part.strip() for part in name.split("+")):
        registry = TERMS if place else METHODS
        group: own.Group = "terms" if place else "methods"
        short = own.name_of(named)
        if short in recipes:
            raise ConfigError(f"method: {name!r} names the term {short!r} twice")
        if named in registry:
            recipes[named] = registry[named].recipe
            continue
        before = (known or {}).get(named, _UNKNOWN)
        pinned = before.source, before.digest, (held or {}).get(named)
        part = own.find(group, named, *pinned, "method: ")
        if part is None:
            raise ConfigError(f"method: {own.refused(group, group[:-1], named, [*registry])}")
        _check(short, part)
        recipes[short], mine[short] = part.make, Own(source=part.source, digest=part.digest)
    return Parts(recipes, mine)


_UNKNOWN = Own(source="")


def _check(name: str, part: own.Part) -> None:
    """Refuse a part of the user's that could be taken for one of ours, or whose options are not."""
    if name in METHODS or name in TERMS:
        raise ConfigError(f"method: {part.source}: linsep has its own {name!r}; rename yours")
    parameters = inspect.signature(part.make).parameters.values()
    if any(p.kind is not p.KEYWORD_ONLY for p in parameters):
        should = f"options follow a star: def {name}(*, weight: float = 1.0)"
        raise ConfigError(f"method: {part.source}: {should}")


def recipe(part: str) -> Callable[..., Any]:
    return (METHODS | TERMS)[part].recipe


def assemble(name: str, options: Mapping[str, Mapping[str, object]]) -> Method:
    """The sum that a name stands for: each part called with its options."""
    return parts(name).assemble(options)
