"""Set the memory allocator of the process for training on a CPU."""

import ctypes
import os
import platform

__all__ = ["keep_memory"]

GLIBC = {-1: 2**31 - 1, -3: 2**25}
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, each at its largest."""


def keep_memory() -> None:
    """Let glibc keep the large blocks that are freed, instead of returning them to the system.

    Otherwise the next step has to request every page again, which takes a tenth of its time on a
    CPU. This changes the whole process, so only commands do it, never the library.
    """
    set_by_user = any(name.startswith("MALLOC_") for name in os.environ)
    if platform.libc_ver()[0] == "glibc" and not set_by_user:
        allocator = ctypes.CDLL(None)
        for option, value in GLIBC.items():
            allocator.mallopt(option, value)
