"""The allocator keeps the memory of a step for the next one."""

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from transformable.cli.allocator import keep_memory
keep_memory()
def step():
    return [torch.ones(1_000_000) for _ in range(20)]
step(); step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> int:
    """Pages that had to be fetched anew for 80 MB that were there a step before."""
    done = subprocess.run(
        [sys.executable, "-c", FAULTS],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_memory_is_kept_from_step_to_step_unless_the_user_has_set_it() -> None:
    pages = 80_000_000 // 4096
    # a tensor or two may come to lie elsewhere
    assert faults() < pages / 5
    assert faults(MALLOC_TRIM_THRESHOLD_="131072") > pages / 2
