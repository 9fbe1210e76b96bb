"""The paper's tables and its figure 4: the runs that they need, and ours beside the paper's."""
