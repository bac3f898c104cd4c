"""Ensembles: the weights of their members, and what an ensemble gains."""
