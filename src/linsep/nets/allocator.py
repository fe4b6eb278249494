"""The C library's allocator: memory that a pass has freed is used again by the next one."""

import ctypes
import os
import sys
from functools import cache

TRIM, MMAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt
KEPT = 1 << 30  # bytes


@cache
def keep_freed_memory() -> None:
    """Let glibc keep freed blocks of up to 1 GB for the next that are asked for.

    Otherwise it returns large blocks to the system at once, and a new one costs a page fault for
    every 4 kB: images of 224x224 then take more than twice as long to pass EfficientNet-Lite0 on
    one CPU thread. Where MALLOC_MMAP_THRESHOLD_ or GLIBC_TUNABLES is set, that choice is kept.
    """
    chosen = {"MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"} & os.environ.keys()
    if sys.platform != "linux" or chosen:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        mallopt(MMAP, KEPT)
        mallopt(TRIM, KEPT)
