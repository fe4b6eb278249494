"""The short names of settings, as people type and read them: `memory` for `memory.rows`.

Knows names only; `--set`, `--over` and `--where` share them.
"""

SHORT = {
    "scenario": "scenario.name", "net": "net.name", "memory": "memory.rows",
    "lr": "training.lr", "epochs": "training.epochs", "batch_size": "training.batch_size",
    "width": "net.width", "per_class": "scenario.per_class", "device": "compute.device",
    "threads": "compute.threads",
}  # fmt: skip

NO_NUMBERS = {"preset", "scenario.data", "compute.threads"}  # they may differ between equal runs


def full_name(name: str) -> str:
    """'memory' -> 'memory.rows', 'net.options.width' -> 'net.width'."""
    return SHORT.get(name, name.replace(".options.", "."))
