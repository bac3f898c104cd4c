"""Metrics of predicted labels of words."""
