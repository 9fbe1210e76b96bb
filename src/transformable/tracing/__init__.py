"""From a network to its Space: its graph, its stages, and the layout of every tensor."""
