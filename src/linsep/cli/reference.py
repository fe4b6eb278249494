"""`linsep list settings`: every setting and option, and docs/settings.md, which is the same page.

Knows where settings come from: sections, presets, scenarios, methods, nets. All that it prints is
read off them, so a new field or option is here as soon as it exists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..settings.catalogue import LIBRARIES, METHODS, NETS, TERMS
from ..settings.config import Config, all_settings
from ..settings.layers import SHORT, flat, short_name
from ..settings.signature import Setting, options, tables_of
from .overrides import FLAGGED

if TYPE_CHECKING:
    from rich.console import Console

    from ..compare.tables import Table

COLUMNS = ("setting", "short name", "flag", "type", "default", "what it does", "set by")
HEAD = """# Settings

After this page you will know every setting of a run, its default, and how to change it. The page is
made from the code by `linsep list settings --format markdown -o docs/settings.md`; `linsep list
settings` prints the same in a terminal.

A setting has a dotted name, such as `training.lr`. Some have a short name as well (`lr`) and a flag
of that name (`--lr`). Both names mean the same in a TOML file, in `--set`, `--over`,
`--over-range`, `--where` and `linsep.Config`:

```
linsep run --lr 0.1 --set training.momentum=0.9
linsep grid --over lr=0.03,0.1 --over seed=0..4 --epochs 2
linsep runs --where "lr=0.1 and bfp.weight>1"
```

The command line comes before the config, the config before the preset, the preset before what the
scenario suggests, that before what the method suggests, and the defaults below come last. A setting
that is given twice in one of these places is refused. A value on the command line also replaces a
list under `[over]` or a range under `[search]` in the config; within a config, the list comes
before the value.

Where a scenario sets the learning rate, it is meant for SGD without momentum on a cross-entropy: a
method with momentum *m* gets 1 − *m* times that rate, and some methods have a factor of their own.

In the column of types, a square bracket includes the bound and a round one excludes it.
"""


class Block(NamedTuple):
    """Settings under one heading."""

    title: str
    line: str
    settings: list[Setting]
    page: str = ""  # in docs/, on what the options do


def blocks(text: str = "") -> list[Block]:
    """The settings whose names contain a text, by section; then options, by what has them."""
    found = [
        block._replace(settings=[s for s in block.settings if text in _names(s.name)])
        for block in (*_sections(), *_recipes())
    ]
    return [block for block in found if block.settings]


def _sections() -> Iterator[Block]:
    own = [setting for setting in all_settings() if setting.name.rpartition(".")[2] != "options"]
    yield Block(
        "general", "The method, the seed, the preset.", [s for s in own if "." not in s.name]
    )
    for name, line in tables_of(Config).items():
        yield Block(name, line, [s for s in own if s.name.rpartition(".")[0] == name])


def _recipes() -> Iterator[Block]:
    from ..data.registry import SOURCES
    from ..nets.backbones import find

    for name, about in METHODS.items():
        yield _recipe(f"method {name}", about.recipe, name, f"methods/{name}.md")
    for name, about in TERMS.items():
        page = f"methods/{about.page or name}.md"
        yield _recipe(f"term +{name}", about.recipe, name, page)
    for name, net in NETS.items():
        yield _recipe(f"net {name}", net.recipe, "net")
    for name in LIBRARIES:
        model = f"{name}/<model>"
        yield Block(f"net {model}", f"Any model of {name}.", options(find(model).maker, "net"))
    for name, source in SOURCES.items():
        yield _recipe(f"scenario {name}", source.load, "scenario")


def _recipe(title: str, recipe: Callable[..., Any], part: str, page: str = "") -> Block:
    """The options of a function, under the first paragraph of its docstring."""
    line = " ".join((inspect.getdoc(recipe) or "").partition("\n\n")[0].split())
    return Block(title, line, options(recipe, part), page)


def _names(name: str) -> str:
    return f"{name} {short_name(name)}"


def flag(name: str) -> str:
    """'--lr' for training.lr; empty for a setting without one."""
    short = short_name(name)
    return f"--{short.replace('_', '-')}" if short in FLAGGED else ""


class Setters:
    """Which presets, scenarios and methods give a setting a value of their own."""

    def __init__(self) -> None:
        self._given: dict[str, dict[str, Mapping[str, Any]]] = {
            "scenarios": _by_scenario(), "methods": _by_method(), "presets": _by_preset(),
        }  # fmt: skip

    def line(self, setting: Setting) -> str:
        """'scenarios: 50 (split-cifar10); methods: ...', of those that differ from the default."""
        parts = []
        for kind, givers in self._given.items():
            by: dict[str, list[str]] = {}
            for name, values in givers.items():
                shown = setting._replace(default=_listed(values.get(setting.name))).default_text
                if shown and shown != setting.default_text:
                    by.setdefault(shown, []).append(name)
            if by:
                each = [f"{value} ({', '.join(names)})" for value, names in by.items()]
                parts.append(f"{kind}: {', '.join(each)}")
        return "; ".join(parts)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _by_preset() -> dict[str, Mapping[str, Any]]:
    from ..settings.catalogue import PRESETS

    return {
        name: flat({k: v for k, v in preset.items() if k != "options"}) | flat(preset["options"])
        for name, preset in PRESETS.items()
    }


def _by_scenario() -> dict[str, Mapping[str, Any]]:
    from ..data.registry import SOURCES

    return {n: flat(s.suggests) | {"scenario.per_task": s.per_task} for n, s in SOURCES.items()}


def _by_method() -> dict[str, Mapping[str, Any]]:
    from ..methods import assemble

    found: dict[str, Mapping[str, Any]] = {}
    for name in METHODS:
        made = assemble(name, {})
        policy = {"memory.policy": made.memories[0]} if made.memories else {}
        training = flat({"training": {"lr": made.lr} | dict(made.suggests)})
        found[name] = policy | training | flat({"net": made.net_options})
    return found


def table(found: Iterable[Block]) -> Table:
    """All settings in one table."""
    from ..compare.tables import Table

    setters = Setters()
    return Table(COLUMNS, [_row(s, setters) for block in found for s in block.settings])


def _row(setting: Setting, setters: Setters) -> tuple[str, ...]:
    short = short_name(setting.name) if setting.name in SHORT.values() else ""
    name, kind, default = setting.name, setting.type, setting.default_text
    return name, short, flag(name), kind, default, setting.line, setters.line(setting)


def page(found: Iterable[Block]) -> str:
    """docs/settings.md."""
    setters, parts = Setters(), [HEAD]
    for block in found:
        more = f" See [its page]({block.page})." if block.page else ""
        parts.append(f"## {block.title}\n\n{block.line}{more}\n")
        rows = [_row(setting, setters) for setting in block.settings]
        kept = [0, *(i for i in range(1, len(COLUMNS)) if any(row[i] for row in rows))]
        lines = [COLUMNS, ("---",) * len(COLUMNS), *(_code(row) for row in rows)]
        parts.append("\n".join(f"| {' | '.join(line[i] for i in kept)} |" for line in lines) + "\n")
    return "\n".join(parts)


def _code(row: tuple[str, ...]) -> tuple[str, ...]:
    code = [f"`{cell}`" if cell and i in (0, 1, 2, 4) else cell for i, cell in enumerate(row)]
    return tuple(cell.replace("|", "\\|") for cell in code)


def show(found: Iterable[Block], console: Console) -> None:
    """Print the settings for a reader, at any width."""
    from rich.padding import Padding
    from rich.text import Text

    setters = Setters()
    for block in found:
        console.print(Text.assemble((block.title, "bold"), "  ", (block.line, "dim")))
        for setting in block.settings:
            default = f", default {setting.default_text}" if setting.default_text else ""
            head = f"{setting.name}  {flag(setting.name)}".rstrip()
            top = Text.assemble((head, "cyan"), f"  {setting.type}{default}")
            console.print(Padding(top, (0, 0, 0, 2), expand=False))
            by = setters.line(setting)
            more = " ".join(filter(None, [setting.line, by and f"Set by {by}."]))
            if more:
                console.print(Padding(Text(more, "dim"), (0, 0, 0, 6), expand=False))
        console.print()
