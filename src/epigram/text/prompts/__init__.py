"""Prompt templates, and the tokens that stand for label names in them."""
