"""Explanations of predictions: how much each word of a text speaks for a label."""
