"""A user's project: its creation, its record in epigram.yaml, and its update."""
