"""Recipes of the systems, one module a paper, and their registry."""
