"""The configuration of a run: all sections in one model, from settings and to TOML.

Knows the sections. What a user leaves open is filled in by `prepare.resolve`, which knows the
scenarios and the methods.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import tomli_w
from pydantic import Field, PrivateAttr, ValidationError, model_validator

from .. import own
from ..errors import ConfigError
from . import sections
from .layers import merged
from .signature import problem, validate


class Config(sections.Section):
    """Everything that decides a run; `resolve` fills in what is left open.

    `scenario="blobs"` and `net="cnn"` are short for `{"name": ...}`, `memory=200` for
    `{"rows": 200}`. `method` and `net` may also be functions of your own, and `method` a list of
    those and names: `method=[er_kd, "bfp"]`. `net` may be an `nn.Module`.
    """

    added: ClassVar[Mapping[str, Any]] = {"own": {}}

    method: str = "derpp+bfp"
    seed: sections.Seed = 0
    preset: Literal["paper", "authors"] | None = None
    scenario: sections.Scenario = sections.Scenario()
    net: sections.Net = sections.Net()
    training: sections.Training = sections.Training()
    memory: sections.Memory = sections.Memory()
    evaluation: sections.Evaluation = sections.Evaluation()
    compute: sections.Compute = sections.Compute()
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)  # of the method's parts
    # The parts that are the user's, by name; filled in from names like file.py:function.
    own: dict[str, sections.Own] = Field(default_factory=dict)

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
    content = _without_none(config.model_dump(mode="json"))
    return tomli_w.dumps(content | content.pop("options"))


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    """TOML has no null: what is None is left out, and is None again when it is read."""
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }
