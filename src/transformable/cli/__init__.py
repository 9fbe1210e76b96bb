"""The command line; the only part that knows the parser, tables for a terminal, and arguments."""

from .entry import main

__all__ = ["main"]
