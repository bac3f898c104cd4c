"""Pretraining of a small encoder by masked language modelling."""
