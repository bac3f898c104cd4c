"""epigram stop: the end of what `epigram dashboard` started."""

from __future__ import annotations

from epigram.cli.projects.project import enter_project
from epigram.process.display import echo


def main() -> None:
    """Stop the dashboard of this project, with everything that it runs.

    Example: epigram stop
    """
    root = enter_project("stop", "flows.pipeline")
    from epigram.runner.service import service_lock

    service = service_lock.stop(root)
    echo(f"stopped process {service.process}" if service else "no service is running for this repository")
