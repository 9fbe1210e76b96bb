"""The paper's tables and its figure 4: the runs they need, and our figures beside the paper's."""
