"""The request for a run, its settings, and the tree in which it works."""
