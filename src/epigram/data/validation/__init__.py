"""Rules for the rows of a corpus, its splits and folds, and the statistics in its report."""
