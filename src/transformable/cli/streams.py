"""Standard streams that never stop the work, even if they are closed or their reader is gone;
warnings in one line."""

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["keep_streams", "show_warnings_in_one_line", "stdout_to_stderr"]

PACKAGE = str(Path(__file__).parents[1])


def keep_streams() -> None:
    """Open closed standard streams as /dev/null, and let neither a reader that is gone nor a letter
    that the locale lacks stop the process."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # the lowest free number: without this, a run's own file would get it and be printed to
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = _patient(sys.stdout, 1), _patient(sys.stderr, 2)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Within the context, what this process, libraries in C and child processes print to stdout
    goes to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def show_warnings_in_one_line() -> None:
    """Show warnings of this package as one line; those of other packages stay as they are."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if filename.startswith(PACKAGE):
            print(f"tas: warning: {message}", file=file or sys.stderr)
        else:
            usual(message, category, filename, lineno, file, line)

    warnings.showwarning = show


def _patient(stream: TextIO | None, number: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(_PatientFile(number, "wb", closefd=False)),
        encoding=None if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )


class _PatientFile(io.FileIO):
    """A stream that stays usable when its reader is gone."""

    def write(self, content: "ReadableBuffer", /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            # discard all later output
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(memoryview(content))
