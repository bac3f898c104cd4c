"""Flows. Importing `tasks` first gives Prefect its settings."""

import tasks as tasks
