"""The configuration of a run: all sections in one model, from settings and to TOML.

Knows the sections. What a user leaves open is filled in by `prepare.resolve`, which knows the
scenarios and the methods.
"""

from collections.abc import Mapping
from typing import Any, Literal

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
    """

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
