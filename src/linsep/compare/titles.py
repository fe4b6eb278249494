"""What methods, terms and data sets are called in print: 'derpp+bfp' is 'DER++ w/ BFP'.

Kept apart from the registries in methods/ and data/, which need torch. What has no title here is
shown by its own name.
"""

from collections.abc import Mapping
from pathlib import PurePath

METHODS = {
    "ft": "FT", "jt": "JT", "er": "ER", "der": "DER", "derpp": "DER++", "er_ace": "ER-ACE",
    "icarl": "iCaRL", "fdr": "FDR", "lucir": "LUCIR", "bic": "BiC", "lwf": "LwF", "ewc": "EWC",
    "si": "SI", "agem": "A-GEM", "gdumb": "GDumb",
}  # fmt: skip
TERMS = {
    "bfp": "BFP", "bfp2": "BFP-2", "fd": "FD", "ser": "SER", "lode": "LODE", "star": "STAR",
    "wa": "WA", "ema": "EMA", "refit": "Refit",
    "transport": "Transport",
}  # fmt: skip
SCENARIOS = {
    "split-cifar10": "Split CIFAR-10", "split-cifar100": "Split CIFAR-100",
    "split-tinyimagenet": "Split TinyImageNet", "split-imagenet100": "Split ImageNet-100",
    "split-mnist": "Split MNIST", "split-fashion-mnist": "Split Fashion-MNIST",
}  # fmt: skip
OWN = ("folder", "table", "arrays", "huggingface", "code")  # scenarios that say nothing of the data
BOUND = "jt"  # trained on all data at once: an upper bound and no competitor


def title(method: str) -> str:
    """'derpp+bfp' -> 'DER++ w/ BFP'."""
    base, *terms = method.split("+")
    added = ", ".join(TERMS.get(term, term) for term in terms)
    return METHODS.get(base, base) + (f" w/ {added}" if terms else "")


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
