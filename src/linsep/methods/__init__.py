"""The recipes, and the names by which a config asks for them.

A method is a function that returns a sum of terms; its keyword arguments are its options.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError, unknown
from ..learning.method import Method
from .agem import agem
from .backward import bfp, bfp2, fd
from .bic import bic
from .er_ace import er_ace
from .ewc import ewc
from .fdr import fdr
from .gdumb import gdumb
from .icarl import icarl
from .joint import ft, jt
from .lucir import lucir
from .lwf import lwf
from .replay import der, derpp, er
from .si import si


@dataclass(frozen=True)
class About:
    """A line for `linsep list`, and where the idea comes from."""

    recipe: Callable[..., Any]  # gives a Method, or a Summand where it is a term's
    line: str
    source: str


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
    "bfp": About(bfp, "a learned linear map recovers the old features", "Gu et al., 2023"),
    "bfp2": About(bfp2, "the same with a two-layer map", "Gu et al., 2023"),
    "fd": About(fd, "feature distillation: the map is the identity", "Gu et al., 2023"),
}


def parts(name: str) -> tuple[str, ...]:
    """'derpp+bfp' -> ('derpp', 'bfp'), every part known and named once."""
    base, *extras = (part.strip() for part in name.split("+"))
    if base not in METHODS:
        raise ConfigError(f"method: {unknown('method', base, METHODS)}")
    for extra in extras:
        if extra not in TERMS:
            raise ConfigError(f"method: {unknown('term', extra, TERMS)}")
        if extras.count(extra) > 1:
            raise ConfigError(f"method: {name!r} names the term {extra!r} twice")
    return base, *extras


def recipe(part: str) -> Callable[..., Any]:
    return (METHODS | TERMS)[part].recipe


def assemble(name: str, options: Mapping[str, Mapping[str, object]]) -> Method:
    """The sum that a name stands for: each part called with its options."""
    base, *extras = parts(name)
    method: Method = METHODS[base].recipe(**options.get(base, {}))
    for extra in extras:
        method += TERMS[extra].recipe(**options.get(extra, {}))
    return method


# How often the numbers of a method have changed for the same options: a part of its runs' keys.
REVISED: Mapping[str, int] = {"bic": 1, "icarl": 1, "lucir": 1}


def revisions(name: str) -> int:
    return REVISED.get(parts(name)[0], 0)
