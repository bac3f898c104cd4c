"""Checkpoints on disk, from which a killed training resumes.

    .epigram/state/STAGE/NAME/FINGERPRINT/seed-0/step-00000120/   state.safetensors  state.json

The name of the step ends in `-halves` if batches are halved because of too little memory.

The fingerprint is a hash of everything that the stage reads, and of the device and the precision of its products. After
a change of a parameter, a text or a line of code, or on another kind of device, no old checkpoint is found. A
pretrained checkpoint is included as it was when its view was encoded, and one of the hub by its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from epigram.core.errors import EpigramError, ParameterError, is_out_of_memory
from epigram.core.files import atomic_folder, exclusive_lock, read_json, sha256, write_json, write_tensors
from epigram.process.display import echo
from epigram.process.signals import raise_interrupt
from epigram.training import parallel
from epigram.training.state import State

ROOT = Path(".epigram/state")
KEEP_LAST = 2  # latest checkpoints
HALVED_SUFFIX = "-halves"
READ_ERRORS = (EpigramError, KeyError, TypeError, AttributeError)  # errors from reading a damaged file
CODE_PREFIXES = ("epigram.", "__main__")  # modules whose code is part of the fingerprint if they are loaded
PACKAGE = Path(__file__).parents[1]
NAMED_PARTS = ("nn", "training")  # packages whose modules are imported by name, maybe after the fingerprint is taken
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

    def save(self, step: int, state: State) -> None:
        """Write `state` and remove the checkpoints that are not kept. Raises OSError if it cannot be written."""
        start = time.monotonic()
        with atomic_folder(self.folder / f"step-{step:08d}{HALVED_SUFFIX * self.halved}") as folder:
            write_tensors(folder / "state.safetensors", state.tensors)
            facts = {"sha256": sha256(folder / "state.safetensors"), "facts": state.facts}
            _write_note(folder / "state.json", facts)
        existing = sorted(self.folder.glob("step-*"))
        full_batches = [path for path in existing if not path.name.endswith(HALVED_SUFFIX)]
        for old in set(existing) - set(existing[-KEEP_LAST:]) - set(full_batches[-1:]):
            shutil.rmtree(old)
        self._last = time.monotonic()
        self._cost = self._last - start

    def latest(self) -> State | None:
        """Return the newest intact checkpoint, or None; damaged ones are removed."""
        for path in sorted(self.folder.glob("step-*"), reverse=True):
            try:
                state = _read(path)
                self.halved = path.name.endswith(HALVED_SUFFIX)
                return state
            except READ_ERRORS:  # truncated or changed on the disk
                shutil.rmtree(path, ignore_errors=True)
        return None

    def clear(self) -> None:
        """Remove all checkpoints."""
        shutil.rmtree(self.folder, ignore_errors=True)


def checkpoint_or_stop(
    checkpoints: Checkpoints | None, signal: int, step: int, state: Callable[[], State | None]
) -> None:
    """Write a checkpoint between two steps if one is due or if a `signal` asks to stop.

    With a `signal`, raises KeyboardInterrupt or Terminated afterwards. If `state` returns None, no checkpoint is
    written. Of several processes, the first one writes, and a signal to one of them stops all after the same step.
    """
    due = int(checkpoints is not None and parallel.rank() == 0 and checkpoints.due)
    signal, due = parallel.maximum([signal, due])
    if checkpoints is not None and (signal or due) and (current := state()) is not None:
        if parallel.rank() == 0:
            checkpoints.save(step, current)
        parallel.wait_for_all()  # a process that stops now may end the others
    if signal:
        raise_interrupt(signal)


@contextmanager
def resume_folder(stage: str, name: str, *facts: Any) -> Iterator[Path]:
    """Yield the folder for a stage's progress on `name`; it is removed on success.

    The folder depends on `facts` and the package's code. If memory runs out, progress with halved batches is removed,
    so that the next run has the same result as one with enough memory. Raises TryAgainError while another process does
    the same work.
    """
    folder = ROOT / stage / name
    state = folder / parallel.from_first(lambda: fingerprint(*facts))
    if parallel.rank():
        yield state
        return
    busy = f"another process is running {stage} of {name}; rerun when it has finished"
    with exclusive_lock(folder.with_name(f"{name}.lock"), lambda process: busy):
        try:
            _discard_others(folder, state)
            yield state
        except BaseException as error:  # a panic of a Rust library is not an Exception
            if is_out_of_memory(error):
                _discard_halved(state)
            error.add_note(str(state))  # a disk error may not name its path
            raise
        shutil.rmtree(folder, ignore_errors=True)


def _discard_others(folder: Path, state: Path) -> None:
    """Remove the resume state that cannot be used: of other data, parameters, code, hardware or number of threads."""
    others = [path for path in folder.glob("*") if path != state]
    for path in others:
        shutil.rmtree(path, ignore_errors=True)
    if others:
        differ = "its data, parameters, code, hardware or number of threads differ from this run"
        echo(f"{folder}: resume state discarded: {differ}")


def _discard_halved(state: Path) -> None:
    for path in state.rglob(f"step-*{HALVED_SUFFIX}"):
        shutil.rmtree(path, ignore_errors=True)
    for note in state.glob("*.json"):
        with suppress(*READ_ERRORS):
            if _read_note(note)["halved"]:
                note.unlink()


def mark_finished(folder: Path, checkpoints: Checkpoints, about: Any = None) -> None:
    """Record that a part of the work is finished: store `about` and the checksums of all files of `folder`.

    The `checkpoints` of this part are removed.
    """
    _write_note(_note(folder), {"files": _files(folder), "halved": checkpoints.halved, "about": about})
    checkpoints.clear()


def read_finished(folder: Path) -> Any:
    """Return the record of a finished part, including `about`.

    If there is none, or if the files have changed, the part is removed and the result is None.
    """
    try:
        note = _read_note(_note(folder))
        if note["files"] == _files(folder):
            return note
    except READ_ERRORS:
        pass
    _note(folder).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return None


def _note(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _files(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): sha256(file) for file in sorted(folder.rglob("*")) if file.is_file()}


def fingerprint(*facts: Any) -> str:
    """Return a hash of `facts`, PyTorch's version, the loaded modules and those of NAMED_PARTS.

    `facts` are JSON values, or objects with a descriptive `str`.
    """
    loaded = {
        getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith(CODE_PREFIXES)
    }
    parts = {str(path) for package in NAMED_PARTS for path in (PACKAGE / package).rglob("*.py")}
    code = [sha256(Path(file)) for file in sorted(filter(None, loaded | parts))]
    return _digest(json.dumps([facts, code, torch.__version__], sort_keys=True, default=str))[:16]


def _read(path: Path) -> State:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    stored = _read_note(path / "state.json")
    if stored["sha256"] != sha256(path / "state.safetensors"):
        raise EpigramError(f"{path} has changed since it was written")
    try:
        return State(load_file(path / "state.safetensors"), stored["facts"])
    except SafetensorError as error:
        raise EpigramError(f"{path} cannot be read: {error}") from None


def _write_note(path: Path, note: dict[str, Any]) -> None:
    write_json(path, {**note, "digest": _digest(note)})


def _read_note(path: Path) -> dict[str, Any]:
    """Return an intact note. Raises EpigramError, KeyError, TypeError or AttributeError for any other."""
    note: dict[str, Any] = read_json(path)
    if note.pop("digest") != _digest(note):
        raise EpigramError(f"{path} has changed since it was written")
    return note


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _checkpoint_interval() -> float:
    text = os.environ.get(INTERVAL_VARIABLE, str(DEFAULT_INTERVAL))
    try:
        return max(0.0, float(text))
    except ValueError:
        raise ParameterError(f"invalid {INTERVAL_VARIABLE}={text!r}: expected a number of seconds") from None
