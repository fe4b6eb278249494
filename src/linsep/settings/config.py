"""The configuration of a run: all sections in one model, from settings and to TOML.

Knows the sections. What a user leaves open is filled in by `prepare.resolve`, which knows the
scenarios and the methods.
"""

from collections.abc import Mapping
from html import escape
from typing import Any, ClassVar, Literal

import tomli_w
from pydantic import Field, ValidationError, model_validator

from ..errors import ConfigError
from . import sections
from .layers import merged
from .signature import problem, validate


class Config(sections.Section):
    """Everything that decides a run; `resolve` fills in what is left open.

    Short names (`settings.names`) stand for fields of sections: `memory=200` for
    `memory={"rows": 200}`, `lr=0.1` for `training={"lr": 0.1}`.

    >>> import linsep
    >>> linsep.Config(scenario="blobs", method="er", memory=50, training={"epochs": 2})
    Config(method='er', seed=0, scenario={'name': 'blobs'}, training={'epochs': 2}, \
memory={'rows': 50})
    """

    added: ClassVar[Mapping[str, Any]] = {"name": None, "tags": None}

    name: sections.Label | None = None
    """Name of the run in tables and reports. Not part of its key."""
    tags: sections.Tags | None = None
    """Words to find the run by: `--where tag=ablation`. Not part of its key."""
    method: str = "derpp+bfp"
    """How to learn: a method and terms that are added to it, such as er, derpp or derpp+bfp."""
    seed: sections.Seed = 0
    """Seed of all random numbers."""
    preset: Literal["paper", "authors"] | None = None
    """Choices of the BFP paper's text (paper) or of its authors' program (authors)."""
    scenario: sections.Scenario = sections.Scenario()
    net: sections.Net = sections.Net()
    training: sections.Training = sections.Training()
    memory: sections.Memory = sections.Memory()
    evaluation: sections.Evaluation = sections.Evaluation()
    compute: sections.Compute = sections.Compute()
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Options of the method and its terms; files have a table for each, such as [bfp]."""

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(problem(error, model=Config)) from None

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
