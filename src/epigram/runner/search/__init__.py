"""Search for the best systems within a time budget."""
