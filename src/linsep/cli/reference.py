"""`linsep list`: names to choose from, and every setting, which is also docs/settings.md.

All of it is read off the catalogue, the sections of a config and the recipes, so a new field or
option is here as soon as it exists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.text import Text
from typer import Argument

from ..compare.tables import Table
from ..custom import Group, offered, package_of
from ..errors import ConfigError
from ..settings.catalogue import (
    ADDONS,
    LIBRARIES,
    METHODS,
    NET_OPTIONS,
    NETS,
    PRESETS,
    SCENARIO_OPTIONS,
    SCENARIOS,
)
from ..settings.config import Config, all_settings, unknown_setting
from ..settings.layers import SHORT, flat, shipped, short_name
from ..settings.signature import Setting, options, tables_of
from . import flags
from .overrides import FLAGGED
from .terminal import open_console, write

KINDS = ("methods", "addons", "scenarios", "nets", "configs", "settings")
COMPUTE = (
    "1.00x is fine-tuning: images through the networks, over a run of Split CIFAR-10 with "
    "50 epochs and 200 stored images"
)
KIND = flags.one_of("", "kind", KINDS)
Kind = Annotated[
    str | None,
    Argument(parser=KIND, metavar="KIND", help=f"{', '.join(KINDS)}; default: all names."),
]
Part = Annotated[str, Argument(metavar="TEXT", help="Only what has this in its name.")]
COLUMNS = ("setting", "short name", "flag", "type", "default", "what it does", "set by")
Row = tuple[str, ...]  # of these columns
Givers = Mapping[str, Mapping[str, Mapping[str, Any]]]  # kind -> name -> setting -> value


def list_(
    kind: Kind = None,
    text: Part = "",
    *,
    form: flags.Form,
) -> None:
    """List methods, add-ons, scenarios, nets, configs or settings.

    Add-ons extend methods: derpp+bfp, er+fd, ft+bfp2.

    Examples:
      linsep list methods
      linsep list settings bfp
    """
    if kind == "settings":
        _list_settings(text, form)
        return
    if kind is None and form != flags.Form():
        raise ConfigError(f"--format and --output are for one kind: {', '.join(KINDS)}")

    tables = []
    for one in [kind] if kind else KINDS[:-1]:
        rows = [row for row in _choices(one) if text in row[0]]
        columns = ("name", "what it is", "source", "compute")[: len(rows[0])] if rows else ("name",)
        caption, spare = one.replace("addons", "add-ons"), [["source"]] * ("source" in columns)
        tables.append(Table(columns, rows, caption, spare=spare))
    notes = [COMPUTE] if kind in (None, "methods", "addons") else []
    if kind is None:
        notes.append("All settings, their defaults and what they do: linsep list settings")
    form.publish(tables, notes)


def _list_settings(text: str, form: flags.Form) -> None:
    found = blocks(text)
    if not found:
        raise ConfigError(unknown_setting(text))
    if form.format_ == "markdown":
        write(page(found), form.output)
    elif form == flags.Form():
        show(found, open_console())
    else:
        rows = [row for block in found for row in block.rows]
        form.publish([Table(COLUMNS, rows)])


def _choices(kind: str) -> list[tuple[str, ...]]:
    """What a config may name: the name, a line about it, where it is from, its cost."""
    if kind == "configs":
        return list(shipped().items())
    line = "any model of {0}, if installed: pip install 'linsep[{0}]'"
    group: Group = kind  # type: ignore[assignment]
    packages = [(name, f"of {package_of(point)}") for name, point in offered(group).items()]
    if kind == "scenarios":
        return [*((name, entry.line) for name, entry in SCENARIOS.items()), *packages]
    if kind == "nets":
        nets = [(name, entry.line) for name, entry in NETS.items()]
        return [*nets, *((f"{name}/<model>", line.format(name)) for name in LIBRARIES), *packages]
    plus, entries = ("+", ADDONS) if kind == "addons" else ("", METHODS)
    return [
        *((plus + n, e.line, e.source, f"{e.compute:{plus}.2f}x") for n, e in entries.items()),
        *((plus + name, words, "-", "-") for name, words in packages),
    ]


# --- settings ------------------------------------------------------------------------------------


class Block(NamedTuple):
    """Settings under one heading."""

    title: str
    line: str
    settings: Sequence[Setting]
    page: str = ""  # in docs/, on what the options do

    @property
    def rows(self) -> list[Row]:
        return list(map(_row, self.settings))


def blocks(text: str = "") -> list[Block]:
    """The settings whose names contain a text, by section; then options, by what has them."""
    found = [
        block._replace(
            settings=[s for s in block.settings if text in f"{s.name} {short_name(s.name)}"]
        )
        for block in (*_sections(), *_recipes())
    ]
    return [block for block in found if block.settings]


def _sections() -> Iterator[Block]:
    for name, line in ({"": "The method, the seed, the preset."} | tables_of(Config)).items():
        found = [s for s in all_settings() if s.name.rpartition(".")[0] == name]
        yield Block(name or "general", line, [s for s in found if _last(s.name) != "options"])


def _recipes() -> Iterator[Block]:
    """The options of what has a recipe, under the first paragraph of the recipe's docstring."""
    from ..data.registry import SOURCES
    from ..nets.backbones import find

    for title, entries in (("method ", METHODS), ("add-on +", ADDONS)):
        for name, entry in entries.items():
            page = f"methods/{entry.page or name}.md"
            yield _options(f"{title}{name}", entry.recipe, name, entry.options, page)
    nets = {name: entry.recipe for name, entry in NETS.items()}
    nets |= {f"{name}/<model>": find(f"{name}/<model>").maker for name in LIBRARIES}
    for name, recipe in nets.items():
        yield _options(f"net {name}", recipe, "net", NET_OPTIONS)
    for name, source in SOURCES.items():
        yield _options(f"scenario {name}", source.load, "scenario", SCENARIO_OPTIONS)


def _options(
    title: str, recipe: Callable[..., Any], part: str, lines: Mapping[str, str], page: str = ""
) -> Block:
    about = " ".join((inspect.getdoc(recipe) or "").partition("\n\n")[0].split())
    found = [s._replace(line=lines.get(_last(s.name), s.line)) for s in options(recipe, part)]
    return Block(title, about, found, page)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _row(setting: Setting) -> Row:
    name, short = setting.name, short_name(setting.name)
    flag = f"--{short.replace('_', '-')}" if short in FLAGGED else ""
    short = short if name in SHORT.values() else ""
    return name, short, flag, setting.type, setting.default_text, setting.line, _set_by(setting)


def _set_by(setting: Setting) -> str:
    """'scenarios: 50 (split-cifar10); methods: ...', of those that differ from the default."""
    parts = []
    for kind, given in _givers().items():
        by: dict[str, list[str]] = {}
        for name, values in given.items():
            shown = setting._replace(default=values.get(setting.name)).default_text
            if shown and shown != setting.default_text:
                by.setdefault(shown, []).append(name)
        each = [f"{value} ({', '.join(names)})" for value, names in by.items()]
        parts += [f"{kind}: {', '.join(each)}"] if each else []
    return "; ".join(parts)


@cache
def _givers() -> Givers:
    """Which scenarios, methods and presets give a setting a value of their own."""
    from ..data.registry import SOURCES
    from ..methods import assemble

    methods: dict[str, Mapping[str, Any]] = {}
    for name in METHODS:
        made = assemble(name, {})
        policy = {"memory.policy": made.memories[0]} if made.memories else {}
        training = flat({"training": {"lr": made.lr} | dict(made.suggests)})
        methods[name] = policy | training | flat({"net": made.net_options})
    return {
        "scenarios": {
            n: flat(s.suggests) | {"scenario.per_task": s.per_task} for n, s in SOURCES.items()
        },
        "methods": methods,
        "presets": {
            name: flat({k: v for k, v in preset.items() if k != "options"} | preset["options"])
            for name, preset in PRESETS.items()
        },
    }


def page(found: Iterable[Block]) -> str:
    """docs/settings.md."""
    parts = [(files("linsep") / "cli" / "settings.md").read_text(encoding="utf-8")]
    for block in found:
        more = f" See [its page]({block.page})." if block.page else ""
        parts.append(f"## {block.title}\n\n{block.line}{more}\n")
        kept = [0, *(i for i in range(1, len(COLUMNS)) if any(row[i] for row in block.rows))]
        lines = [COLUMNS, ("---",) * len(COLUMNS), *map(_code, block.rows)]
        parts.append("\n".join(f"| {' | '.join(line[i] for i in kept)} |" for line in lines) + "\n")
    return "\n".join(parts)


def _code(row: Row) -> Row:
    code = [f"`{cell}`" if cell and i in (0, 1, 2, 4) else cell for i, cell in enumerate(row)]
    return tuple(cell.replace("|", "\\|") for cell in code)


def show(found: Iterable[Block], console: Console) -> None:
    """Print the settings for a reader, at any width."""
    for block in found:
        console.print(Text.assemble((block.title, "bold"), "  ", (block.line, "dim")))
        for name, _, flag, kind, default, line, by in block.rows:
            shown = f"  {kind}, default {default}" if default else f"  {kind}"
            top = Text.assemble((f"{name}  {flag}".rstrip(), "cyan"), shown)
            console.print(Padding(top, (0, 0, 0, 2), expand=False))
            if more := " ".join(filter(None, [line, by and f"Set by {by}."])):
                console.print(Padding(Text(more, "dim"), (0, 0, 0, 6), expand=False))
        console.print()
