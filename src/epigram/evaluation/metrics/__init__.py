"""Metrics of predicted labels, with their intervals."""
