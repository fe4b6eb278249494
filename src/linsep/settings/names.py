"""The short names of settings, as people type and read them: `memory` for `memory.rows`.

Knows names only; `--set`, `--over` and `--where` share them.
"""

SHORT = {
    "scenario": "scenario.name", "net": "net.name", "memory": "memory.rows",
    "lr": "training.lr", "epochs": "training.epochs", "batch_size": "training.batch_size",
    "width": "net.width", "per_class": "scenario.per_class", "device": "compute.device",
    "threads": "compute.threads",
}  # fmt: skip

# They may differ between equal runs; so may the place of a part of one's own, own.<name>.source.
NO_NUMBERS = {"preset", "scenario.data", "compute.threads", "net.weights"}


def decides(name: str) -> bool:
    """Return whether numbers may depend on a field."""
    place = name.startswith("own.") and name.endswith(".source")
    return name not in NO_NUMBERS and not place


def full_name(name: str) -> str:
    """'memory' -> 'memory.rows', 'net.options.width' -> 'net.width'."""
    return SHORT.get(name, name.replace(".options.", "."))
