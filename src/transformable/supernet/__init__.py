"""The searchable network: all candidate sizes in one forward pass."""
