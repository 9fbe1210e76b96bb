"""Build networks by name, read weights, load, export, describe and time networks."""
