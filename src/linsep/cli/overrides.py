"""From the command line to settings: a config, flags, --set, --over and --over-range in one.

The flag of a setting has the setting's short name, its type and its description as help. Two flags
must not set the same thing; what they set replaces what the config has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, NamedTuple

from typer import Option

from ..errors import ConfigError
from ..settings.config import all_settings
from ..settings.layers import (
    VARIED,
    assignment,
    flat,
    full_name,
    merged,
    nested,
    read_config,
    split,
)

PANEL = "Settings"  # of the help
CELL = "--cell"  # the one flag among the settings' that is none
RANGE = "'lr=0.001..1 log'"  # an example of --over-range
TUNED = "The paper's hyper-parameters for a cell, such as split-cifar10/ft."
WIDTH = "Width of the net, if it has one; 64 is ResNet-18's own."
ANY = "Any setting, such as bfp.weight=3; see `linsep list settings`."
LISTS = "Values to try: seed=0..4, lr=0.03,0.1, method=er,er+bfp, ..."
FILE = "Settings to start from: a name of `linsep list configs` or a .toml file. Flags override it."
Set = Annotated[
    list[str] | None, Option("--set", metavar="SETTING=VALUE", help=ANY, rich_help_panel=PANEL)
]
Over = Annotated[
    list[str] | None, Option(metavar="SETTING=VALUES", help=LISTS, rich_help_panel=PANEL)
]
# Flags that stand for no single field of a config.
OTHERS = {
    "cell": Annotated[str | None, Option(metavar="CELL", help=TUNED, rich_help_panel=PANEL)],
    "width": Annotated[int | None, Option(help=WIDTH, rich_help_panel=PANEL)],
    "set_": Set,
}
TYPES = {"integer": int, "number": float, "list": list[str]}  # by the first word about a type


class Typed(NamedTuple):
    """A flag of a command line with its values, and the settings that they stand for."""

    flag: str
    values: Sequence[str]
    settings: dict[str, Any]

    @property
    def names(self) -> set[str]:
        """The settings that it is about, be it with a value, a list or a range."""
        return set(map(_bare, flat(self.settings)))

    def __str__(self) -> str:
        text = " ".join(self.values)
        return f"{self.flag} {text if len(text) <= 60 else '...'}"


@dataclass(frozen=True)
class SettingFlags:
    """A group of flags, one for each of these names: short names of settings, or `OTHERS`."""

    names: tuple[str, ...]

    def parameters(self) -> Iterator[Parameter]:
        about = {setting.name: setting for setting in all_settings()}
        for name in self.names:
            hint: Any = OTHERS.get(name)
            if hint is None:
                setting = about[full_name(name)]
                kind = TYPES.get(setting.type.partition(" ")[0], str)
                hint = Annotated[kind | None, Option(help=setting.line, rich_help_panel=PANEL)]
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint)

    def collect(self, given: Mapping[str, Any]) -> list[Typed]:
        """The flags that were given."""
        found = []
        for name, value in given.items():
            flag, several = f"--{name.replace('_', '-')}", isinstance(value, list)
            if name == "set_":
                found += assigned(value)
            elif value is not None:
                own = {} if flag == CELL else nested(full_name(name), value)
                found.append(Typed(flag, list(map(str, value if several else [value])), own))
        return found


LABELS = ("name", "tag", "data_name")
DETAILS = (
    "seed", "epochs", "lr", "batch_size", "net", "width", "data", "per_task", "per_class",
    "test_per_class", "device", "threads", "set_",
)  # fmt: skip
EXPERIMENT = ("scenario", "method", "memory", "preset", "cell")
FLAGGED = {*EXPERIMENT, *DETAILS, *LABELS} - {"cell", "set_"}
Given = list[Typed]
Settings = Annotated[Given, SettingFlags((*EXPERIMENT, *DETAILS, *LABELS))]
Details = Annotated[Given, SettingFlags((*DETAILS, *LABELS))]  # where a table decides the rest
Labels = Annotated[Given, SettingFlags(LABELS)]


def settings_from(config: str | None, words: Given) -> dict[str, Any]:
    """Merge the settings of a config with those of the command line, which win.

    A value, a list of --over and a range of --over-range are three ways to give a setting: the
    command line may use one of them, and it replaces whichever the config uses.
    """
    replaced = _once(words)
    given = [one.settings for one in words]
    settings = merged(_without(read_config(config) if config is not None else {}, replaced), *given)
    if isinstance(parts := settings.get("parts"), list):  # of a grid, each of which it replaces too
        settings["parts"] = [merged(_without(part, replaced), *given) for part in parts]
    for one in words:
        if one.flag == CELL:
            from ..paper.reproduction import with_cell

            return with_cell(one.values[0], settings)
    return settings


def assigned(texts: Iterable[str] | None) -> Given:
    """What --set was given."""
    return [Typed("--set", [text], merged(assignment(text))) for text in texts or ()]


def varied(over: Iterable[str] | None, over_range: Iterable[str] | None = None) -> Given:
    """The lists and the ranges that were given."""
    from ..grids.plan import over as listed

    found = []
    for text in over or ():
        name, values = listed(text)
        found.append(Typed("--over", [text], nested(f"over.{full_name(name)}", values)))
    for text in over_range or ():
        name, ends = split(text, "--over-range", RANGE)
        found.append(Typed("--over-range", [text], nested(f"search.{full_name(name)}", ends)))
    return found


def no_lists(settings: dict[str, Any], config: str | None) -> dict[str, Any]:
    """The settings of one run: without ranges to search, and refused if there are lists."""
    if left := flat(settings.get("over", {})):
        wanted = " and ".join(left)
        raise ConfigError(
            f"{config or 'over'}: has a list for {wanted}; give one value of each, or use "
            f"`linsep grid{f' {config}' * bool(config)}`"
        )
    return {name: value for name, value in settings.items() if name not in VARIED}


def _once(words: Given) -> set[str]:
    """The names of all settings that were given; refuse two flags about the same one."""
    by: dict[str, Typed] = {}
    for one in words:
        for name in one.names:
            if name in by:
                raise ConfigError(f"{by[name]} and {one} both set {name}: give one of them")
            by[name] = one
    return set(by)


def _without(settings: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """The settings of a config without its lists and ranges for these names."""
    result = dict(settings)
    for table in VARIED:
        given = flat(nested(table, result.pop(table, {})))
        kept = {name: value for name, value in given.items() if _bare(name) not in names}
        result = merged(result, kept)
    return result


def _bare(name: str) -> str:
    """'over.training.lr' -> 'training.lr'."""
    table, _, rest = name.partition(".")
    return full_name(rest if table in VARIED and rest else name)
