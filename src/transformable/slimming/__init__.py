"""A network and a shape become a small ordinary network."""
