"""Prefect flows. Importing `epigram.runner` first sets the defaults of Prefect's settings."""

import epigram.runner  # noqa: F401
