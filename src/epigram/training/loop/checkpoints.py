"""Checkpoints of a training on disk: when they are written, and how a training resumes from them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from epigram.core.errors import EpigramError, ParameterError
from epigram.core.files import atomic_folder, sha256, write_tensors
from epigram.process.signals import raise_interrupt
from epigram.training.distributed import parallel
from epigram.training.loop.callback import Callback
from epigram.training.loop.progress import report_progress
from epigram.training.loop.snapshot import Snapshot, restore_snapshot, take_snapshot
from epigram.training.notes import READ_ERRORS, read_note, write_note

if TYPE_CHECKING:
    from epigram.training.loop.trainer import Trainer

KEEP_LAST = 2  # latest checkpoints
HALVED_SUFFIX = "-halves"
INTERVAL_VARIABLE = "EPIGRAM_CHECKPOINT_SECONDS"
DEFAULT_INTERVAL = 20.0  # minimum time between two checkpoints
INTERVAL_PER_SAVE = 50  # minimum time as a multiple of the last save's duration: at most 2% goes to saving


class Checkpoints:
    """Checkpoints of one training in `folder`: the last two, and the last one before batches were halved.

    They are written between two steps. The minimum time between two checkpoints keeps the cost at 2% or less. No thread
    is used, because the start of a thread may hang when memory runs out. `halved` is whether batches are halved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.halved = folder, False
        self.every = _checkpoint_interval()
        self._last, self._cost = time.monotonic(), 0.0

    @property
    def due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return time.monotonic() - self._last >= max(self.every, INTERVAL_PER_SAVE * self._cost if self.every else 0.0)

    def save(self, step: int, snapshot: Snapshot) -> None:
        """Write `snapshot` and remove the checkpoints that are not kept. Raises OSError if it cannot be written."""
        start = time.monotonic()
        with atomic_folder(self.folder / f"step-{step:08d}{HALVED_SUFFIX * self.halved}") as folder:
            write_tensors(folder / "state.safetensors", snapshot.tensors)
            write_note(folder / "state.json", {"sha256": sha256(folder / "state.safetensors"), "facts": snapshot.facts})
        existing = sorted(self.folder.glob("step-*"))
        full_batches = [path for path in existing if not path.name.endswith(HALVED_SUFFIX)]
        for old in set(existing) - set(existing[-KEEP_LAST:]) - set(full_batches[-1:]):
            shutil.rmtree(old)
        self._last = time.monotonic()
        self._cost = self._last - start

    def latest(self) -> Snapshot | None:
        """Return the newest intact checkpoint, or None; damaged ones are removed."""
        for path in sorted(self.folder.glob("step-*"), reverse=True):
            try:
                snapshot = _read(path)
                self.halved = path.name.endswith(HALVED_SUFFIX)
                return snapshot
            except READ_ERRORS:  # truncated or changed on the disk
                shutil.rmtree(path, ignore_errors=True)
        return None

    def clear(self) -> None:
        """Remove all checkpoints."""
        shutil.rmtree(self.folder, ignore_errors=True)


class SaveCheckpoints(Callback):
    """Resume from the latest checkpoint of the Trainer's `checkpoints`, and write new ones."""

    def start(self, trainer: Trainer) -> None:
        """Resume, if there is a checkpoint."""
        with parallel.first_before_others():  # the first one removes damaged checkpoints
            snapshot = trainer.checkpoints.latest() if trainer.checkpoints else None
        if snapshot is None:
            return
        restore_snapshot(trainer, snapshot)
        trainer.first_step = trainer.position.step
        report_progress(trainer, f"resuming from step {trainer.first_step:,} of {trainer.steps:,}")

    def between_steps(self, trainer: Trainer) -> None:
        """Write a checkpoint if one is due, and end the training if a signal asks to."""
        checkpoint_or_stop(
            trainer.checkpoints, trainer.stop_signal(), trainer.position.step, lambda: take_snapshot(trainer)
        )


def checkpoint_or_stop(
    checkpoints: Checkpoints | None, signal: int, step: int, snapshot: Callable[[], Snapshot | None]
) -> None:
    """Write a checkpoint between two steps if one is due or if a `signal` asks to stop.

    With a `signal`, raises KeyboardInterrupt or Terminated afterwards. If `snapshot` returns None, no checkpoint is
    written. Of several processes, the first one writes, and a signal to one of them stops all after the same step.
    """
    due = int(checkpoints is not None and parallel.rank() == 0 and checkpoints.due)
    signal, due = parallel.maximum([signal, due])
    if checkpoints is not None and (signal or due) and (current := snapshot()) is not None:
        if parallel.rank() == 0:
            checkpoints.save(step, current)
        parallel.wait_for_all()  # a process that stops now may end all
    if signal:
        raise_interrupt(signal)


def _read(path: Path) -> Snapshot:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    stored = read_note(path / "state.json")
    if stored["sha256"] != sha256(path / "state.safetensors"):
        raise EpigramError(f"{path} has changed since it was written")
    try:
        return Snapshot(load_file(path / "state.safetensors"), stored["facts"])
    except SafetensorError as error:
        raise EpigramError(f"{path} cannot be read: {error}") from None


def _checkpoint_interval() -> float:
    text = os.environ.get(INTERVAL_VARIABLE, str(DEFAULT_INTERVAL))
    try:
        return max(0.0, float(text))
    except ValueError:
        raise ParameterError(f"invalid {INTERVAL_VARIABLE}={text!r}: expected a number of seconds") from None
