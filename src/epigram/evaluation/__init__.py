"""Evaluation of systems: arrays of predictions and gold labels in, numbers and choices out."""
