"""Temporary."""

from ..report.results import live_table as results_table

__all__ = ["results_table"]
