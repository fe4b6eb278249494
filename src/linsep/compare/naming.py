"""What methods, data sets, variants and blocks are called in print.

    DER++ + BFP                      the method derpp+bfp
    DER++ + BFP, γ=0.5               a variant, beside another with γ=3
    Split CIFAR-10, memory=200        a block, beside others

A label says no more than is needed to tell it from the others: of two settings that always change
together, the first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from ..settings.catalogue import SCENARIOS as CATALOGUE
from ..settings.catalogue import title as title
from ..settings.layers import SHORT
from ..storage.store import Value

SCENARIOS = {name: entry.title for name, entry in CATALOGUE.items()}
OWN = ("folder", "table", "arrays", "huggingface", "code")  # scenarios that say nothing of the data
BOUND = "jt"  # trained on all data at once: an upper bound and no competitor


def is_bound(method: str) -> bool:
    return method.partition("+")[0] == BOUND


def data_title(facts: Mapping[str, object], titles: Mapping[str, str] = SCENARIOS) -> str:
    """The data's name, if the user gave it one, else that of own data's file or of the scenario."""
    name, place = facts.get("scenario.name"), facts.get("scenario.data")
    if given := facts.get("scenario.data_name"):
        return str(given)
    if name in OWN and place:
        return PurePath(str(place)).name or str(name)
    return titles.get(str(name), str(name or ""))


# --- labels --------------------------------------------------------------------------------------

Fields = tuple[tuple[str, Value], ...]
SHORT_OF = {full: short for short, full in SHORT.items()}
DATA = "scenario.name"  # stands for the data set, by its title
MEMORY = "memory.size"
# What a reader looks for first; the digest of the data only where nothing else tells.
FIRST = (DATA, MEMORY, "net.name", "net.width", "training.lr", "training.epochs")
LAST = ("data",)
SYMBOLS = {"ser": "β", "star": "λ"}  # of terms' weights, where a paper has not BFP's γ


def shown(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)


def telling(rows: Sequence[Mapping[str, Value]], names: Iterable[str]) -> list[str]:
    """As few of the fields as tell the rows apart as well as all of them do, the first first."""
    ranked = sorted(dict.fromkeys(names), key=_rank)

    def apart(some: Sequence[str]) -> int:
        return len({tuple(row.get(name) for name in some) for row in rows})

    kept: list[str] = []
    for name in ranked:
        if apart([*kept, name]) > apart(kept):
            kept.append(name)
    for name in reversed(kept[:-1]):
        fewer = [other for other in kept if other != name]
        kept = fewer if apart(fewer) == apart(kept) else kept
    return kept


def short_names(fields: Sequence[str]) -> dict[str, str]:
    """'training.lr' -> 'lr', 'training.schedule.milestones' -> 'milestones', if that is unique."""
    found = {field: SHORT_OF.get(field, field.rpartition(".")[2]) for field in fields}
    count = Counter(found.values())
    return {field: name if count[name] == 1 else field for field, name in found.items()}


def setting_words(row: Mapping[str, Value], told: Sequence[str]) -> str:
    """'Split CIFAR-10, memory=200'."""
    names = short_names(told)
    return ", ".join(_setting(field, names[field], row.get(field)) for field in told)


def option_words(method: str, row: Mapping[str, Value], told: Sequence[str]) -> str:
    """'γ=0.5, BFP lr=0.1': the weight of a method's only added term is called as in its paper."""
    known = [field for field in told if row.get(field) is not None]
    return ", ".join(f"{option_name(method, field)}={shown(row[field])}" for field in known)


def option_name(method: str, field: str) -> str:
    part, _, option = field.partition(".")
    base, *terms = method.split("+")
    if part == base:
        return option
    if option == "weight":
        symbol = SYMBOLS.get(part, "γ")
        return symbol if len(terms) == 1 else f"{title(part)} {symbol}"
    return f"{title(part)} {option}"


def variant_titles(variants: Sequence[tuple[str, Fields, str | None]]) -> list[str]:
    """A title for each (method, options, name that the user gave all of its runs)."""
    methods: dict[str, list[dict[str, Value]]] = {}
    owners: dict[str | None, set[tuple[str, Fields]]] = {}
    for method, options, name in variants:
        methods.setdefault(method, []).append(dict(options))
        owners.setdefault(name, set()).add((method, options))
    told = {m: telling(rows, (n for row in rows for n in row)) for m, rows in methods.items()}
    plain = []
    for method, options, _ in variants:
        words = option_words(method, dict(options), told[method])
        plain.append(", ".join(filter(None, [title(method), words])))
    return [
        name if name and len(owners[name]) == 1 and name not in plain else label
        for label, (_, _, name) in zip(plain, variants, strict=True)
    ]


def _setting(field: str, name: str, value: Value) -> str:
    if field == "data":
        return f"data {shown(value)[:6]}"
    if field == MEMORY and value == 0:
        return "no memory"
    if value is None:  # an option that not all of them have, or that is not written at its default
        return f"default {name}"
    return shown(value) if field in (DATA, "net.name") else f"{name}={shown(value)}"


def _rank(field: str) -> int:
    return FIRST.index(field) if field in FIRST else len(FIRST) + (field in LAST)
