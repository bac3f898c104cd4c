"""Server, dashboard, worker and schedules: python -m flows.serve is `epigram dashboard`.

prefect.yaml defines what is scheduled, and when.
"""

from __future__ import annotations

from epigram.cli import program

if __name__ == "__main__":
    program("dashboard")
