"""Prefect flows. `tasks` is imported first, because it sets Prefect's settings."""

import tasks as tasks
