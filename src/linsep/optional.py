"""Packages that linsep can do without, imported when they are first needed."""

from importlib import import_module
from typing import Any

from .errors import ConfigError

# By the name under which a package is imported, the extra that installs it.
EXTRAS = {
    "datasets": "huggingface", "jinja2": "plot", "matplotlib": "plot", "mlflow": "mlflow",
    "onnx": "onnx", "onnxscript": "onnx", "openTSNE": "analysis", "optuna": "search",
    "ray": "ray", "submitit": "slurm", "tensorboard": "tensorboard", "timm": "timm",
    "torchvision": "torchvision", "wandb": "wandb",
}  # fmt: skip


def needed(module: str, by: str) -> Any:
    """Import an optional module; if that fails, the error says why and what installs it."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except (ImportError, RuntimeError) as error:  # a broken torchvision raises the latter
        broken = not isinstance(error, ModuleNotFoundError)
        reason = f", which fails to import ({str(error).splitlines()[0]})" if broken else ""
        advice = f"pip install 'linsep[{EXTRAS[package]}]'"
        raise ConfigError(f"{by} needs {package}{reason}: {advice}") from None
