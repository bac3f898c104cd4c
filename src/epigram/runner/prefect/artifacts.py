"""Artifacts of a run: the progress of its stages, and the table of their states."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

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


WAITING, RUNNING, RETRYING = "Waiting", "Running", "Retrying"
STYLES = {
    WAITING: "dim",
    RUNNING: "bold yellow",
    RETRYING: "yellow",
    "Cached": "blue",
    "Restored": "cyan",
    "Completed": "green",
    "Failed": "bold red",
}
# Rows with the lowest values are shown if the terminal has no room for all rows.
URGENCY = {"Failed": 0, RUNNING: 1, RETRYING: 1, "Completed": 2, "Restored": 2}


@dataclass
class StageRow:
    """State of one stage, its working time in seconds, and its last output line."""

    state: str = WAITING
    work_seconds: float = 0.0
    started_at: float | None = None  # monotonic time at which it started, while it runs
    line: str = ""

    @property
    def seconds(self) -> float:
        """Seconds of work so far, summed over all tries."""
        return self.work_seconds + (time.monotonic() - self.started_at if self.started_at is not None else 0.0)


class StatusTable:
    """Thread-safe status table of all stages."""

    def __init__(self, names: Iterable[str], console: Console) -> None:
        self.rows = {name: StageRow() for name in names}
        self.console = console
        self._lock = threading.Lock()

    def live(self) -> AbstractContextManager[object]:
        """Show the table while the context is open, if the output is a terminal."""
        if not self.console.is_terminal:
            return nullcontext()
        return Live(self, console=self.console, refresh_per_second=5)

    def start(self, name: str) -> None:
        """Mark the stage as running."""
        with self._lock:
            row = self.rows[name]
            row.state, row.started_at, row.line = RUNNING, time.monotonic(), ""

    def set_line(self, name: str, line: str) -> None:
        """Set the stage's last output line."""
        self.rows[name].line = line

    def stop(self, name: str, state: str, line: str = "") -> None:
        """Record that the stage has stopped, finally or until a retry. Prints a line if the output is no terminal."""
        with self._lock:
            row = self.rows[name]
            row.work_seconds, row.started_at = row.seconds, None
            row.state, row.line = state, line
        if not self.console.is_terminal:
            self.console.print(f"{name} {state} {row.work_seconds:.1f}", markup=False, highlight=False, soft_wrap=True)

    def __rich__(self) -> RenderableType:
        """Return the table, cut to the height of the terminal."""
        max_rows = max(self.console.size.height - 4, 5)
        rows = list(self.rows.items())
        hidden = 0
        if len(rows) > max_rows:
            shown = {name for name, _ in sorted(rows, key=lambda item: URGENCY.get(item[1].state, 3))[:max_rows]}
            rows, hidden = [item for item in rows if item[0] in shown], len(rows) - max_rows
        table = _table(rows)
        return Group(table, Text(f"… and {hidden} more stages", style="dim")) if hidden else table


def _table(rows: list[tuple[str, StageRow]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("stage", no_wrap=True, min_width=max(len(name) for name, _ in rows))
    table.add_column("state", no_wrap=True, min_width=9)
    table.add_column("seconds", justify="right", no_wrap=True, min_width=7)
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
    for name, row in rows:
        style = STYLES.get(row.state, "magenta")
        seconds = "" if row.state == WAITING else f"{row.seconds:.1f}"
        table.add_row(name, Text(row.state, style=style), seconds, Text(row.line, style="dim"))
    return table
