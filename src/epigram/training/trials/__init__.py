"""Trials of systems on a part of the training texts."""
