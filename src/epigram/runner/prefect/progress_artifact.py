"""Progress of a stage, as an artifact of its task run in Prefect's dashboard."""

from __future__ import annotations

import logging
import re
from typing import cast
from uuid import UUID

BAR = re.compile(r"\[(?=[#-])(#*)(-*)\]")  # the progress bar of a training: [####------]

log = logging.getLogger(__name__)


def percent(line: str) -> float | None:
    """Return how much of the progress bar in `line` is filled, in percent; None if there is no bar."""
    bar = BAR.search(line)
    return 100 * len(bar[1]) / (len(bar[1]) + len(bar[2])) if bar else None


class ProgressArtifact:
    """Progress artifact that shows a stage's last progress line; it is created with the first line.

    Its key depends only on the stage, so the dashboard lists the progress of the same stage over all runs. If the
    server cannot be reached, the artifact is no longer updated, and the stage continues.
    """

    def __init__(self, stage: str) -> None:
        self.key = "progress-" + re.sub(r"[^a-z0-9]+", "-", stage.lower()).strip("-")
        self._artifact: UUID | None = None
        self._failed = False

    def show(self, line: str) -> None:
        """Show `line` if it contains a progress bar. Call it from the stage's task, at most every few seconds."""
        if (done := percent(line)) is not None:
            self._write(done, line)

    def finish(self) -> None:
        """Show 100 % for a successful stage: after early stopping, the last bar of a training is not full."""
        if self._artifact:
            self._write(100.0, "done")

    def _write(self, done: float, line: str) -> None:
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        if self._failed:
            return
        plain = line.replace("`", "'")
        try:
            if self._artifact is None:
                self._artifact = cast(UUID, create_progress_artifact(done, key=self.key, description=f"`{plain}`"))
            else:
                update_progress_artifact(self._artifact, done, description=f"`{plain}`")
        except Exception as error:  # any error of the server
            self._failed = True
            log.warning("the dashboard no longer shows the progress of %s: %s", self.key, error)
