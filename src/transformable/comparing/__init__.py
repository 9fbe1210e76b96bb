"""Many jobs: the trials of a comparison, their processes, and the queue that they share."""
