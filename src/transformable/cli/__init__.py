"""The command line; only this package uses tyro and rich."""

from .entry import main

__all__ = ["main"]
