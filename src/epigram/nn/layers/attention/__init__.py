"""Attention: dot products, correlations, head-to-head, labels, and part-of-speech weights."""
