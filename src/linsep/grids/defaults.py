"""Training settings in which a grid's methods differ although nobody asked for it.

A method suggests a learning rate, and some suggest more. Who compares methods should know. Knows
the cells of a plan; says nothing of settings that the user gave.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..settings.layers import flat
from ..settings.names import short_name
from .plan import Cell

MOST = 5  # more methods than that are not listed


def differing(cells: Sequence[Cell]) -> list[str]:
    """'lr differs by default: 0.1 for er, 0.03 for derpp. Give --lr to set one for all.'"""
    alike: dict[str, list[Cell]] = {}  # by all that was given, except for the method and the seed
    for cell in cells:
        if cell.training:
            alike.setdefault(repr(sorted(_given(cell).items(), key=str)), []).append(cell)
    lines: dict[str, None] = {}
    for group in alike.values():
        for name in group[0].training:
            values = _by_value(group, name)
            if len(values) > 1 and name not in _given(group[0]):
                lines[_line(name, values)] = None
    return list(lines)


def _given(cell: Cell) -> Mapping[str, Any]:
    apart = {"method", "seed", "options"}
    return flat({name: value for name, value in cell.settings.items() if name not in apart})


def _by_value(cells: Sequence[Cell], name: str) -> dict[str, list[str]]:
    """The methods of each value; a method with terms that agrees with it is not told apart."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        method, value = str(cell.settings.get("method")), str(cell.training[name])
        named = found.setdefault(value, [])
        if not {method, method.partition("+")[0]} & set(named):
            named.append(method)
    return found


def _line(name: str, values: Mapping[str, Sequence[str]]) -> str:
    short = short_name(name)
    flag = f"--set {name}=VALUE" if short == name else f"--{short.replace('_', '-')}"
    each = ", ".join(f"{value} for {_who(methods)}" for value, methods in values.items())
    return f"{short} differs by default: {each}. Give {flag} to set one for all."


def _who(methods: Sequence[str]) -> str:
    *first, last = methods
    if len(first) >= MOST:
        return "most"
    return f"{', '.join(first)} and {last}" if first else last
