"""Errors of torch's exporters, made short enough to show to a user."""

import contextlib
import logging
import re
from collections.abc import Iterator

__all__ = ["exporter_errors"]


@contextlib.contextmanager
def exporter_errors(exporter: str) -> Iterator[None]:
    """Turn what an exporter raises into a ValueError of one line, and mute its log messages."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # exporters raise many kinds
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = re.sub(r"\x1b\[[0-9;]*m", "", lines[0])  # colours
        raise ValueError(f"the network cannot be written by {exporter}: {reason}") from error
    finally:
        logging.disable(logging.NOTSET)
