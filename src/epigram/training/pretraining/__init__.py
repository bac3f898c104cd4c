"""Pretraining of a small encoder or a checkpoint by masked language modelling."""
