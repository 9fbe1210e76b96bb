"""Standard input and output that never stop the work: closed from the start, or by their reader."""

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["keep_streams"]


def keep_streams() -> None:
    """Open the standard files that are closed as /dev/null, and let no reader that is gone, nor a
    letter that the locale lacks, stop the process."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # the lowest free number: without this, a run's own file would get it and be printed to
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = _patient(sys.stdout, 1), _patient(sys.stderr, 2)


def _patient(stream: TextIO | None, number: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(_PatientFile(number, "wb", closefd=False)),
        encoding=None if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )


class _PatientFile(io.FileIO):
    """A file that goes on without its reader."""

    def write(self, content: "ReadableBuffer", /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            # from now on to nowhere, whoever writes to it
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(memoryview(content))
