"""The configuration of a run: all sections in one model, from settings and to TOML.

Knows the sections. What a user leaves open is filled in by `prepare.resolve`, which knows the
scenarios and the methods.
"""

from collections.abc import Mapping
from html import escape
from typing import Any, Literal, Self

import tomli_w
from pydantic import Field, PrivateAttr, ValidationError, model_validator

from .. import own
from ..errors import ConfigError
from . import sections
from .layers import merged
from .signature import problem, validate


class Config(sections.Section):
    """Everything that decides a run; `resolve` fills in what is left open.

    Short names (`settings.names`) stand for fields of sections: `memory=200` for
    `memory={"rows": 200}`, `lr=0.1` for `training={"lr": 0.1}`. `method` and `net` may also be
    functions of your own, and `method` a list of those and names: `method=[er_kd, "bfp"]`. `net`
    may be an `nn.Module`.

    >>> import linsep
    >>> linsep.Config(scenario="blobs", method="er", memory=50, training={"epochs": 2})
    Config(method='er', seed=0, scenario={'name': 'blobs'}, training={'epochs': 2}, \
memory={'rows': 50})
    """

    name: sections.Label | None = None
    """Name of the run in tables and reports. Not part of its key."""
    tags: sections.Tags | None = None
    """Words to find the run by: `--where tag=ablation`. Not part of its key."""
    method: str = "derpp+bfp"
    """How to learn: a method and terms that are added to it, such as er or derpp+bfp, or your own
    as file.py:function."""
    seed: sections.Seed = 0
    """Seed of all random numbers."""
    preset: Literal["paper", "authors", "fast"] | None = None
    """Choices of the BFP paper's text (paper) or of its authors' program (authors), or a form of it
    that needs little more than half of the passes (fast)."""
    scenario: sections.Scenario = sections.Scenario()
    net: sections.Net = sections.Net()
    training: sections.Training = sections.Training()
    memory: sections.Memory = sections.Memory()
    evaluation: sections.Evaluation = sections.Evaluation()
    compute: sections.Compute = sections.Compute()
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of the method and its terms; files have a table for each, such as [bfp]."""
    own: dict[str, sections.Own] = Field(default_factory=dict)
    """Parts of your own, by name; filled in from names like file.py:function."""

    _held: dict[str, Any] = PrivateAttr(default_factory=dict)  # what was handed over in Python

    def __init__(self, **fields: Any) -> None:
        fields, held = handed_over(fields)
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(problem(error, model=Config)) from None
        self._held = held

    @property
    def held(self) -> Mapping[str, Any]:
        """The functions that were handed over in Python, by name; "" is the name of a module."""
        return self._held

    def holding(self, held: Mapping[str, Any]) -> Self:
        """The same config, with what another one holds."""
        copied = self.model_copy()
        copied._held = dict(held)
        return copied

    def __repr__(self) -> str:
        """What differs from the defaults, and always the method and the seed."""
        changed = self.model_dump(exclude_defaults=True)
        named = {name: changed.get(name) for name in type(self).model_fields if name in changed}
        fields = {"method": self.method, "seed": self.seed} | named
        return f"Config({', '.join(f'{name}={value!r}' for name, value in fields.items())})"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(to_toml(self))}</pre>"

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, given: Any) -> Any:
        return merged(given) if isinstance(given, Mapping) else given


def handed_over(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Put names in place of functions, modules and methods, and return these by their names."""
    given, held = dict(fields), dict[str, Any]()
    known = dict(given["own"]) if isinstance(given.get("own"), Mapping) else {}

    def named(value: Any, where: str) -> Any:
        if hasattr(value, "summands"):  # a method that is made already: it has no options
            held["custom"], known["custom"] = (lambda: value), {"source": f"{own.NO_FILE}:custom"}
            return "custom"
        if not callable(value):
            return value
        if str(getattr(value, "__module__", "")).startswith("linsep."):
            return value.__name__  # one of ours
        part = own.described(value, where)
        name = own.name_of(part.source)
        held[name], known[name] = value, {"source": part.source, "digest": part.digest}
        return name

    method = given.get("method")
    parts = method if isinstance(method, list | tuple) else [method]
    names = [named(part, "method: ") for part in parts]
    if all(isinstance(name, str) for name in names):
        given["method"] = "+".join(names)
    net = given.get("net")
    if hasattr(net, "state_dict") and not isinstance(net, type):
        held[""] = given.pop("net")
    elif callable(net):
        given["net"] = named(net, "net: ")
    elif isinstance(net, Mapping) and callable(net.get("name")):
        given["net"] = {**net, "name": named(net["name"], "net.name: ")}
    return given | ({"own": known} if held.keys() - {""} else {}), held


def from_settings(settings: Mapping[str, Any]) -> Config:
    return validate(Config, settings)


def to_toml(config: Config) -> str:
    """Return a config as TOML; the method's options are tables of their own."""
    content = config.model_dump(mode="json")
    return tomli_w.dumps(_without_none(content | content.pop("options")))


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    """TOML has no null: what is None is left out, and is None again when it is read."""
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value not in (None, {})
    }
