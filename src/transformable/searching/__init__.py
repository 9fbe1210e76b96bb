"""The sizes: the alternating step, the pull to the budget, and the shape that is derived."""
