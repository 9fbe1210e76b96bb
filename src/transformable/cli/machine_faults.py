"""Faults of the machine that libraries report in many words, in one line."""

import errno

__all__ = ["describe_fault"]

GO_ON = "the last checkpoint is whole: run the same command again to continue"
ALLOCATORS = ("can't allocate memory", "out of memory", "cannot allocate memory", "bad_alloc")


def describe_fault(error: BaseException, command: str = "") -> str | None:
    """What happened to a command and what to do, or None if the fault is the program's own.

    >>> describe_fault(MemoryError())[:13]
    'out of memory'
    >>> describe_fault(MemoryError(), "latency")
    'out of memory; use a smaller --latency-batch'
    >>> describe_fault(OSError(28, "No space left on device", "run/seconds.json"))[:54]
    'cannot write run/seconds.json: No space left on device'
    >>> describe_fault(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    """
    if isinstance(error, ValueError):  # in words for users already
        return None
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"cannot write {error.filename}: {error.strerror}; what was saved before is whole: "
            "when there is room, run the same command again to continue"
        )
    text = str(error)
    if isinstance(error, MemoryError) or any(word in text.lower() for word in ALLOCATORS):
        if command == "latency":
            return "out of memory; use a smaller --latency-batch"
        return (
            f"out of memory; {GO_ON} when there is more, or use --accumulate or a smaller "
            "--batch-size in another --out"
        )
    if "DataLoader worker" in text:
        return (
            "a process that loads images was killed, probably out of memory; "
            f"{GO_ON}, with fewer --workers"
        )
    return None
