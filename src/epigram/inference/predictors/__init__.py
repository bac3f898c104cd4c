"""Predictors of saved models and ensembles, the batches of an encoded view, and the measurement of final models."""
