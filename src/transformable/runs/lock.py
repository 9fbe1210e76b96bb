"""The lock of a run folder: one process at a time has it."""

import fcntl
import os
from pathlib import Path
from typing import IO

__all__ = ["LOCK", "lock_folder"]

LOCK = ".lock"
ATTEMPTS = 100


def lock_folder(folder: Path, *, wait: bool) -> IO[str]:
    """Make the folder and its lock file, and lock that until it is closed; a folder that another
    process has locked is refused, or waited for.

    Whoever has the lock may remove the file and the folder.
    """
    path = folder / LOCK
    for attempt in range(ATTEMPTS):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = path.open("w")
        except OSError as error:
            if isinstance(error, FileNotFoundError) and attempt < ATTEMPTS - 1:
                continue  # the folder may have been removed since it was made
            raise ValueError(
                f"cannot write to run folder {folder}: {error.strerror}; choose another --out"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            lock.close()
            raise ValueError(
                f"run folder {folder} is in use by another process; wait for it, "
                "or choose another --out"
            ) from None
        except BaseException:
            lock.close()
            raise
        # a file that was removed meanwhile locks nothing: others will make a new one
        if _is_at(path, lock):
            return lock
        lock.close()
    raise ValueError(f"the lock file of {folder} is removed again and again; choose another --out")


def _is_at(path: Path, lock: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(lock.fileno()))
    except FileNotFoundError:
        return False
