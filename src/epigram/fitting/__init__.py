"""Training from Python: a table of texts becomes the best model that a time budget allows, in one process."""
