"""Where a run happened: versions, hardware, the state of the user's checkout, and threads."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import __version__


def describe(device: torch.device) -> dict[str, Any]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {
        "linsep": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.release()}",
        "cpu": cpu(),
        # Which of its kernels torch has chosen: those for AVX2 and AVX-512 round differently.
        "instructions": torch.backends.cpu.get_cpu_capability(),
        # The same for oneDNN's convolutions, which do not follow torch's choice.
        "onednn": os.environ.get("ONEDNN_MAX_CPU_ISA", "native"),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "device": name,
        "git": checkout(Path.cwd()),
        "command": sys.argv,
    }


def cpu() -> str:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    every = os.cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch compute with `count` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def checkout(folder: Path) -> dict[str, Any] | None:
    """Commit and whether anything is changed, if the folder is in a git checkout."""

    def git(*arguments: str) -> str:
        asked = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
        return asked.stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
