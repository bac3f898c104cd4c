"""Prefect tasks of the flows. Prefect caches none of them: DVC decides what is up to date."""
