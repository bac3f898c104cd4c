"""Models that are linear in the counts of tokens and n-grams."""
