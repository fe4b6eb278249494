"""The configuration of a run: all sections in one model, from settings and to TOML.

What a user leaves open is filled in by `resolve`, which knows the scenarios and the methods.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from html import escape
from typing import Any, Literal, Self

import tomli_w
from pydantic import Field, PrivateAttr, ValidationError, model_validator

from .. import custom
from ..errors import ConfigError, shortened, unknown
from . import sections
from .catalogue import ADDONS, METHODS, method_name
from .layers import SHORT, merged
from .signature import Setting, fields_of, problem, tables_of, validate


class Config(sections.Section):
    """Everything that decides a run; `resolve` fills in what is left open.

    Short names (`settings.layers`) stand for fields of sections: `memory=200` for
    `memory={"size": 200}`, `lr=0.1` for `training={"lr": 0.1}`. `method` and `net` may also be
    functions of your own, and `method` a list of those and names: `method=[er_kd, "bfp"]`. `net`
    may be an `nn.Module`.

    >>> import linsep
    >>> linsep.Config(scenario="blobs", method="er", memory=50, training={"epochs": 2})
    Config(method='er', seed=0, scenario={'name': 'blobs'}, training={'epochs': 2}, \
memory={'size': 50})
    """

    name: sections.Label | None = None
    """Name of the run in tables and reports. Not part of its key."""
    tags: sections.Tags | None = None
    """Words to find the run by: `--where tag=ablation`. Not part of its key."""
    method: str = "derpp+bfp"
    """A method with add-ons: derpp+bfp, or your own as file.py:function."""
    seed: sections.Seed = 0
    """Seed of all random numbers."""
    preset: Literal["paper", "authors", "fast"] | None = None
    """As in the paper or its authors' code, or fast (half the compute)."""
    scenario: sections.Scenario = sections.Scenario()
    net: sections.Net = sections.Net()
    training: sections.Training = sections.Training()
    memory: sections.Memory = sections.Memory()
    evaluation: sections.Evaluation = sections.Evaluation()
    compute: sections.Compute = sections.Compute()
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of the method and its terms; files have a table for each, such as [bfp]."""
    custom: dict[str, sections.Custom] = Field(default_factory=dict)
    """Parts of your own, by name; filled in from names like file.py:function."""

    _objects: dict[str, Any] = PrivateAttr(default_factory=dict)  # what was handed over in Python

    def __init__(self, **fields: Any) -> None:
        fields, objects = handed_over(fields)
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(problem(error, model=Config)) from None
        self._objects = objects

    @property
    def objects(self) -> Mapping[str, Any]:
        """The functions that were handed over in Python, by name; "" is the name of a module."""
        return self._objects

    def with_objects(self, objects: Mapping[str, Any]) -> Self:
        """The same config, with what another one holds."""
        copied = self.model_copy()
        copied._objects = dict(objects)
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
        return nest_options(merged(given)) if isinstance(given, Mapping) else given


def handed_over(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Put names in place of functions, modules and methods, and return these by their names."""
    given, objects = dict(fields), dict[str, Any]()
    known = dict(given["custom"]) if isinstance(given.get("custom"), Mapping) else {}

    def named(value: Any, where: str) -> Any:
        if hasattr(value, "weighted_terms"):  # a method that is made already: it has no options
            objects["custom"], known["custom"] = (
                (lambda: value),
                {"source": f"{custom.NO_FILE}:custom"},
            )
            return "custom"
        if not callable(value):
            return value
        if str(getattr(value, "__module__", "")).startswith("linsep."):
            return value.__name__  # one of ours
        part = custom.described(value, where)
        name = custom.name_of(part.source)
        objects[name], known[name] = value, {"source": part.source, "digest": part.digest}
        return name

    method = given.get("method")
    parts = method if isinstance(method, list | tuple) else [method]
    names = [named(part, "method: ") for part in parts]
    if all(isinstance(name, str) for name in names):
        given["method"] = "+".join(names)
    net = given.get("net")
    if hasattr(net, "state_dict") and not isinstance(net, type):
        objects[""] = given.pop("net")
    elif callable(net):
        given["net"] = named(net, "net: ")
    elif isinstance(net, Mapping) and callable(net.get("name")):
        given["net"] = {**net, "name": named(net["name"], "net.name: ")}
    return given | ({"custom": known} if objects.keys() - {""} else {}), objects


def from_settings(settings: Mapping[str, Any]) -> Config:
    return validate(Config, settings)


def nest_options(settings: Mapping[str, Any], methods: Iterable[str] = ()) -> dict[str, Any]:
    """Name the method as linsep does, and move tables that are no section of a config to `options`.

    `methods` are others that the settings may be for, which matters if they are the user's own.
    """
    own = {*settings["custom"]} if isinstance(settings.get("custom"), Mapping) else set()
    found = {k: v for k, v in settings.items() if k in Config.model_fields}
    if isinstance(found.get("method"), str):
        found["method"] = method_name(found["method"], own | {*custom.offered("methods")})
    options = {k: v for k, v in settings.items() if k not in found}
    if not options:
        return found
    texts = [m for m in (found.get("method"), *methods) if isinstance(m, str)]
    mine = own | {custom.name_of(p.strip()) for m in texts for p in m.split("+")}
    known = {*METHODS, *ADDONS, *mine}
    for name, value in options.items():
        if name in known | {*custom.offered("methods"), *custom.offered("addons")}:
            if not isinstance(value, Mapping):
                raise ConfigError(f"{name}: should be a table of options, not {shortened(value)}")
        elif isinstance(value, Mapping):
            raise ConfigError(unknown("section", name, [*tables_of(Config), *known]))
        else:
            raise ConfigError(unknown_setting(name))
    return merged(found, {"options": options})


@cache
def all_settings() -> tuple[Setting, ...]:
    """The settings of a config, in the order of its sections."""
    return tuple(fields_of(Config))


def unknown_setting(name: str) -> str:
    """'unknown setting 'momentum'. Did you mean 'training.momentum'? ...'."""
    full = [setting.name for setting in all_settings()]
    known = {field.rpartition(".")[2]: field for field in reversed(full)} | {f: f for f in full}
    known |= {short: short for short in SHORT}
    words = name.replace("_", " ").lower()  # 'learning_rate' is no name, but says what is meant
    meant = [setting.name for setting in all_settings() if setting.line.lower().startswith(words)]
    close = get_close_matches(name, known, n=1, cutoff=0.6) or meant
    hint = f" Did you mean {known[close[0]]!r}?" if close else ""
    return f"unknown setting {name!r}.{hint} `linsep list settings` lists all"


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
