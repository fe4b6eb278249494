"""The short names of settings, as people type and read them: `memory` for `memory.rows`.

Knows names only. TOML files, `--set`, `--over`, `--over-range`, `--where` and `Config` share them,
and each of them has a flag: `batch_size` is `--batch-size`.
"""

SHORT = {
    "scenario": "scenario.name", "data": "scenario.data", "per_task": "scenario.per_task",
    "per_class": "scenario.per_class", "test_per_class": "scenario.test_per_class",
    "net": "net.name", "width": "net.width", "memory": "memory.rows", "epochs": "training.epochs",
    "lr": "training.lr", "batch_size": "training.batch_size", "device": "compute.device",
    "threads": "compute.threads", "tag": "tags", "data_name": "scenario.data_name",
}  # fmt: skip

LABELS = {"name", "tags", "scenario.data_name"}  # what people call a run and its data
# They may differ between equal runs; so may the place of a part of one's own, own.<name>.source.
NO_NUMBERS = LABELS | {"preset", "scenario.data", "compute.threads", "net.weights"}


def decides(name: str) -> bool:
    """Return whether numbers may depend on a field."""
    place = name.startswith("own.") and name.endswith(".source")
    return name not in NO_NUMBERS and not place


def full_name(name: str) -> str:
    """'memory' -> 'memory.rows', 'net.options.width' -> 'net.width'."""
    return SHORT.get(name, name.removeprefix("options.").replace(".options.", "."))


def short_name(name: str) -> str:
    """'memory.rows' -> 'memory'; a setting without a short name keeps its own."""
    return next((short for short, full in SHORT.items() if full == name), name)
