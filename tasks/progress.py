"""How far a stage has come, as an artifact of its task run in Prefect's dashboard."""

from __future__ import annotations

import logging
import re
from typing import cast
from uuid import UUID

BAR = re.compile(r"\[(?=[#-])(#*)(-*)\]")  # as a training draws it: [####------]

log = logging.getLogger(__name__)


def percent(line: str) -> float | None:
    """How much of the bar in `line` is filled, in percent; None where there is no bar."""
    bar = BAR.search(line)
    return 100 * len(bar[1]) / (len(bar[1]) + len(bar[2])) if bar else None


class Gauge:
    """A progress artifact with a stage's last progress line as its description; there is none until there is a line.

    Its key is the stage's own, so that the dashboard lists the progress of the same stage over the runs. A server that
    cannot be reached ends the gauge, never the stage.
    """

    def __init__(self, stage: str) -> None:
        self.key = "progress-" + re.sub(r"[^a-z0-9]+", "-", stage.lower()).strip("-")
        self._artifact: UUID | None = None
        self._broken = False

    def show(self, line: str) -> None:
        """Show `line`, where it has a bar. Call it from the stage's task, every few seconds at most."""
        if (done := percent(line)) is not None:
            self._write(done, line)

    def finish(self) -> None:
        """The stage has ended well: a training that stopped early did not come to the end of its bar."""
        if self._artifact:
            self._write(100.0, "done")

    def _write(self, done: float, line: str) -> None:
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        if self._broken:
            return
        plain = line.replace("`", "'")
        try:
            if self._artifact is None:
                self._artifact = cast(UUID, create_progress_artifact(done, key=self.key, description=f"`{plain}`"))
            else:
                update_progress_artifact(self._artifact, done, description=f"`{plain}`")
        except Exception as error:  # whatever a server in trouble answers
            self._broken = True
            log.warning("no more progress of %s in the dashboard: %s", self.key, error)
