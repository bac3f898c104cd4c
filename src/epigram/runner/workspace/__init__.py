"""The request for a run, its settings, and its working tree."""
