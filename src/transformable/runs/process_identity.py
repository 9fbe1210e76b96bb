"""Which process does a piece of work, and whether it is still there."""

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessIdentity", "start_of", "this_process"]


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """A process, distinguished from a later one with the same id by its start time.

    >>> this_process().is_alive()
    True
    """

    host: str
    pid: int
    start: str

    def is_alive(self) -> bool | None:
        """Whether the process is there; None if it is, or was, on another machine."""
        if self.host != platform.node():
            return None
        return bool(self.start) and start_of(self.pid) == self.start


def this_process() -> ProcessIdentity:
    """The process that calls this."""
    pid = os.getpid()
    return ProcessIdentity(host=platform.node(), pid=pid, start=start_of(pid))


def start_of(pid: int) -> str:
    """When a process was started, as the system writes it; "" if there is no such process."""
    if not Path("/proc/self/stat").exists():  # macOS
        command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
        state, _, start = subprocess.run(
            command, capture_output=True, text=True, check=False
        ).stdout.partition(" ")
        return "" if state.startswith("Z") else start.strip()
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # the fields after the name, which may itself have spaces and parentheses
    fields = stat.rpartition(")")[2].split()
    # a killed process is a zombie until its parent has waited for it
    return "" if fields[0] in "ZX" else fields[19]
