"""The memory of the process between two parts of the work."""

import ctypes
import gc
import platform

__all__ = ["return_freed_memory"]


def return_freed_memory() -> None:
    """Return to the system what was freed, where the C library can.

    Blocks that it keeps from one training are seldom of the sizes that the next one needs, and
    would add to its peak.
    """
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
