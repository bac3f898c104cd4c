"""Statistics of drift and of champion against challenger."""

REFERENCE = "reference.json"  # statistics of the texts that a champion knows, next to its model
