"""Comparison of systems: who is better, who is tied, and which one to use."""
