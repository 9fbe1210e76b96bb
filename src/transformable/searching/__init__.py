"""The sizes: the search step, the cost penalty, and the shape that is derived."""
