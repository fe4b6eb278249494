"""Freed memory is used again: without page faults."""

import os
import subprocess
import sys

import pytest

CODE = """
import resource, torch
from linsep.nets.allocator import keep_freed_memory

def faults(megabytes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(megabytes << 18)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def of_a_block_after_a_larger_one():
    return [faults(size) for size in (48, 16)][-1]

plain = of_a_block_after_a_larger_one()
keep_freed_memory()
of_a_block_after_a_larger_one()
print(plain, of_a_block_after_a_larger_one())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="about glibc")
def test_a_block_that_was_freed_is_used_again_without_page_faults() -> None:
    plainly = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    said = subprocess.check_output([sys.executable, "-c", CODE], env=plainly, text=True)
    plain, kept = map(int, said.split())
    assert kept < plain / 4
