"""Prefect tasks of the flows."""
