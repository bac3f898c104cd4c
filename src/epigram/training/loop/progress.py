"""Progress of a training: what is reported when, and its text.

The text is a bar on a terminal, marked lines for a runner, otherwise one line per epoch.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epigram.process.display import echo
from epigram.training.loop.callback import Callback
from epigram.training.loop.record import CHECK_INTERVAL
from epigram.training.objectives.base import Evaluation

if TYPE_CHECKING:
    from epigram.training.loop.trainer import Trainer

MARK = "\x1e"  # record separator: the text after it replaces the previous line
WIDTH = 20


@dataclass(frozen=True)
class Progress:
    """Progress of a training, for reports to the user."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    dev: str | None  # best score on dev, formatted; None before the first evaluation
    texts_per_second: float
    seconds_left: float
    note: str = ""  # an event, if there was one


Report = Callable[[Progress], None]


class ReportProgress(Callback):
    """Report after each evaluation, every few steps, and at the end of an epoch without an evaluation."""

    def after_step(self, trainer: Trainer) -> None:
        """Report where it is due, unless an evaluation follows."""
        if trainer.plan is not None:
            due = trainer.ends_epoch or trainer.position.step % CHECK_INTERVAL == 0
        else:
            due = not trainer.evaluates and trainer.position.done % CHECK_INTERVAL == 0
        if due:
            report_progress(trainer)

    def after_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        """Report."""
        report_progress(trainer)


def report_progress(trainer: Trainer, note: str = "") -> None:
    """Give the progress of a training to its `report`, with a `note` on an event if there was one."""
    if trainer.report is None:
        return
    position = trainer.position
    speed, left = estimate_pace(
        time.monotonic() - trainer.started, position.step - trainer.first_step, trainer.steps - position.step
    )
    rate = speed * trainer.objective.size / trainer.per_epoch
    dev = max((line["dev"] for line in trainer.record.history), default=None)
    best = None if dev is None else trainer.objective.shown(dev)
    loss = trainer.losses.mean
    trainer.report(
        Progress(position.epoch, trainer.config.epochs, position.step, trainer.steps, loss, best, rate, left, note)
    )


def estimate_pace(seconds: float, done: int, left: int) -> tuple[float, float]:
    """Return steps per second, and the seconds for `left` steps, given that `done` steps took `seconds`."""
    return done / max(seconds, 1e-9), seconds / max(1, done) * left


def progress_line(progress: Progress, label: str) -> str:
    """Return a line such as `label epoch 3/20 [####------] loss 0.412 dev 82.1 1.2k texts/s 0:12 left`."""
    done = round(WIDTH * progress.step / progress.steps)
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    rate = progress.texts_per_second
    speed = f"{rate / 1000:.1f}k" if rate >= 1000 else f"{rate:.0f}"
    dev = "" if progress.dev is None else f" dev {progress.dev}"
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
