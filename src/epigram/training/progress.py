"""Progress of a training as text: a bar on a terminal, marked lines for a runner, otherwise one line per epoch."""

from __future__ import annotations

import os
import sys
import time

from epigram.process.display import echo
from epigram.training.history import Progress

MARK = "\x1e"  # record separator: the text after it replaces the previous line
WIDTH = 20


def progress_line(progress: Progress, label: str) -> str:
    """Return a line such as `label epoch 3/20 [####------] loss 0.412 dev 82.1 1.2k texts/s 0:12 left`."""
    done = round(WIDTH * progress.step / progress.steps)
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    rate = progress.texts_per_second
    speed = f"{rate / 1000:.1f}k" if rate >= 1000 else f"{rate:.0f}"
    dev = "" if progress.dev is None else f" dev {100 * progress.dev:.1f}"
    return (
        f"{label} epoch {progress.epoch}/{progress.epochs} [{'#' * done}{'-' * (WIDTH - done)}] "
        f"loss {progress.loss:.3f}{dev} {speed} texts/s {minutes}:{seconds:02d} left"
    )


class Printer:
    """Printer of the progress, at most five times a second."""

    def __init__(self, label: str) -> None:
        self.label, self.last, self.epoch = label, 0.0, 0
        self.marked = os.environ.get("EPIGRAM_PROGRESS") == "lines"
        self.terminal = sys.stdout.isatty()

    def __call__(self, progress: Progress) -> None:
        """Print the progress, or its note if it has one."""
        if progress.note:
            return self.close(f"{self.label}: {progress.note}")
        text, now = progress_line(progress, self.label), time.monotonic()
        if self.marked or self.terminal:
            if now - self.last >= 0.2:
                self._replace(text, "\n" if self.marked else "")
                self.last = now
        elif progress.epoch > self.epoch:
            echo(text, flush=True)
            self.epoch = progress.epoch
        return None

    def close(self, text: str) -> None:
        """Replace the bar by one plain line."""
        if self.terminal and not self.marked:
            self._replace(text, "\n")
        else:
            echo(text, flush=True)

    def _replace(self, text: str, end: str) -> None:
        """Print `text` in place of the previous line."""
        before, clear = (MARK, "") if self.marked else ("\r", "\x1b[K")
        echo(text, before=before, end=f"{clear}{end}", flush=True)
