"""The short names of settings, as people type and read them: `memory` for `memory.rows`.

Knows names only; `--set`, `--over` and `--where` share them.
"""

SHORT = {
    "scenario": "scenario.name", "net": "net.name", "memory": "memory.rows",
    "lr": "training.lr", "epochs": "training.epochs", "batch_size": "training.batch_size",
    "width": "net.width", "per_class": "scenario.per_class", "device": "compute.device",
    "threads": "compute.threads", "data_name": "scenario.data_name",
}  # fmt: skip

LABELS = {"name", "tags", "scenario.data_name"}  # what people call a run and its data
# They may differ between equal runs.
NO_NUMBERS = LABELS | {"preset", "scenario.data", "compute.threads"}


def full_name(name: str) -> str:
    """'memory' -> 'memory.rows', 'net.options.width' -> 'net.width'."""
    return SHORT.get(name, name.replace(".options.", "."))
