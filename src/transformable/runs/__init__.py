"""The run folder: settings, metrics and results, each written once."""
