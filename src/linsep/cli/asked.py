"""From what was typed to settings: a config, flags, --set, --over and --over-range in one.

Knows the ways to give a setting on a command line, and that they must not contradict each other.
What the settings mean is checked where they are used.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from ..errors import ConfigError
from ..settings.layers import VARIED, assignment, flat, full_name, merged, nested, split

PAPER = "--paper"  # the one flag among the settings' that is none
RANGE = "'lr=0.001..1 log'"  # an example of --over-range


class Typed(NamedTuple):
    """A flag of a command line with its value, and the settings that they stand for."""

    flag: str
    value: str
    settings: dict[str, Any]

    @property
    def names(self) -> set[str]:
        """The settings that it is about, be it with a value, a list or a range."""
        return set(map(_bare, flat(self.settings)))

    def __str__(self) -> str:
        return f"{self.flag} {self.value}" if len(self.value) <= 60 else f"{self.flag} ..."


def settings_from(
    config: str | None,
    groups: Sequence[Any],
    set_: Sequence[str] | None = None,
    over: Sequence[str] | None = None,
    over_range: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Merge the settings of a config with those of the command line, which win.

    `groups` are dataclasses of flags, such as `flags.Question`. A value, a list of --over and a
    range of --over-range are three ways to give a setting: the command line may use one of them,
    and it replaces whichever the config uses.
    """
    from ..settings.layers import read_config

    words = list(typed(groups, set_, over, over_range))
    replaced = _once(words)
    below = _without(read_config(config) if config is not None else {}, replaced)
    settings = merged(below, *(one.settings for one in words))
    if isinstance(parts := settings.get("parts"), list):  # of a grid, each of which it replaces too
        given = [one.settings for one in words]
        settings["parts"] = [merged(_without(part, replaced), *given) for part in parts]
    for one in words:
        if one.flag == PAPER:
            from ..paper.protocol import with_cell

            return with_cell(one.value, settings)
    return settings


def no_lists(settings: dict[str, Any], config: str | None) -> dict[str, Any]:
    """The settings of one run: without ranges to search, and refused if there are lists."""
    if left := flat(settings.get("over", {})):
        wanted = " and ".join(left)
        raise ConfigError(
            f"{config or 'over'}: has a list for {wanted}; give one value of each, or use "
            f"`linsep grid{f' {config}' * bool(config)}`"
        )
    return {name: value for name, value in settings.items() if name not in VARIED}


def typed(
    groups: Sequence[Any],
    set_: Sequence[str] | None = None,
    over: Sequence[str] | None = None,
    over_range: Sequence[str] | None = None,
) -> Iterator[Typed]:
    """All flags about settings that were given."""
    from ..grids.plan import over as listed

    for group in groups:
        for field in fields(group):
            flag, value = f"--{field.name.replace('_', '-')}", getattr(group, field.name)
            if value is not None:
                own = {} if flag == PAPER else nested(full_name(field.name), value)
                yield Typed(flag, str(value), own)
    for text in set_ or ():
        yield Typed("--set", text, merged(assignment(text)))
    for text in over or ():
        name, values = listed(text)
        yield Typed("--over", text, nested(f"over.{full_name(name)}", values))
    for text in over_range or ():
        name, ends = split(text, "--over-range", RANGE)
        yield Typed("--over-range", text, nested(f"search.{full_name(name)}", ends))


def _once(words: Sequence[Typed]) -> set[str]:
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
        result = merged(result, *(nested(name, value) for name, value in kept.items()))
    return result


def _bare(name: str) -> str:
    """'over.training.lr' -> 'training.lr'."""
    table, _, rest = name.partition(".")
    return full_name(rest if table in VARIED and rest else name)
