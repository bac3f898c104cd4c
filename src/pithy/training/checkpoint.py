"""Checkpoints on disk: a training that was killed goes on where it stood.

    .pithy/state/STAGE/NAME/FINGERPRINT/seed-0/step-00000120/   state.safetensors  state.json

Where batches are taken in halves for want of memory, `-halves` follows the step.

The fingerprint is of all that the stage reads: under a changed parameter, text or line of code nothing old is found.
A pretrained checkpoint counts as it was when its view was encoded, one of the hub by its name.
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

from pithy.display import echo
from pithy.errors import ParameterError, PithyError, interrupt, is_out_of_memory
from pithy.files import alone, atomic_folder, read_json, sha256, write_json, write_tensors
from pithy.training import parallel
from pithy.training.state import State

ROOT = Path(".pithy/state")
KEPT = 2  # checkpoints
HALVES = "-halves"
UNREADABLE = (PithyError, KeyError, TypeError, AttributeError)  # what reading a damaged file raises
OWN = ("pithy.", "__main__")  # modules: what a stage needs, itself included
OFTEN = "PITHY_CHECKPOINT_SECONDS"
SECONDS = 20.0  # at least, between two of them
SHARE = 50  # and so many times what the last one cost: 2% of the time


class Checkpoints:
    """The checkpoints of one training in `folder`: the last two, and the last one before batches were halved.

    They are written between two steps, without a thread: at most 2% of the time goes there by their distance, and
    where memory runs out a thread's start may never return. `halved` says that batches are taken in halves.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.halved = folder, False
        self.every = _seconds()
        self._last, self._cost = time.monotonic(), 0.0

    @property
    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() - self._last >= max(self.every, SHARE * self._cost if self.every else 0.0)

    def save(self, step: int, state: State) -> None:
        """Write `state`, and remove those that are not kept. Raises OSError where it cannot be written."""
        began = time.monotonic()
        with atomic_folder(self.folder / f"step-{step:08d}{HALVES * self.halved}") as folder:
            write_tensors(folder / "state.safetensors", state.tensors)
            facts = {"sha256": sha256(folder / "state.safetensors"), "facts": state.facts}
            _write_note(folder / "state.json", facts)
        there = sorted(self.folder.glob("step-*"))
        whole = [path for path in there if not path.name.endswith(HALVES)]
        for old in set(there) - set(there[-KEPT:]) - set(whole[-1:]):
            shutil.rmtree(old)
        self._last = time.monotonic()
        self._cost = self._last - began

    def latest(self) -> State | None:
        """The newest checkpoint that is whole; those that are not are removed."""
        for path in sorted(self.folder.glob("step-*"), reverse=True):
            try:
                state = _read(path)
                self.halved = path.name.endswith(HALVES)
                return state
            except UNREADABLE:  # cut off or changed on the disk
                shutil.rmtree(path, ignore_errors=True)
        return None

    def clear(self) -> None:
        """Remove them all."""
        shutil.rmtree(self.folder, ignore_errors=True)


def pause(checkpoints: Checkpoints | None, signal: int, step: int, state: Callable[[], State | None]) -> None:
    """Between two steps: write a checkpoint where it is time for one, or where a `signal` asks for the end.

    The end then comes: raises KeyboardInterrupt or Terminated. A `state` of None is not fit to be kept.
    """
    if checkpoints is not None and (signal or checkpoints.due) and (now := state()) is not None:
        checkpoints.save(step, now)
    if signal:
        interrupt(signal)


@contextmanager
def kept(stage: str, name: str, *facts: Any) -> Iterator[Path]:
    """The folder of what a stage has done so far on `name`, by `facts` and pithy's code; it goes with success.

    Where memory runs out, what was done by halves goes too: the next run ends as one that memory sufficed for. Raises
    TryAgainError while another process is at the same work.
    """
    folder = ROOT / stage / name
    state = folder / fingerprint(*facts)
    if parallel.rank():
        yield state
        return
    busy = f"another process is at {stage} of {name}: try again when it has ended"
    with alone(folder.with_name(f"{name}.lock"), lambda process: busy):
        try:
            _discard_others(folder, state)
            yield state
        except BaseException as error:  # a panic of a library written in Rust is no Exception
            if is_out_of_memory(error):
                _forget_halves(state)
            error.add_note(str(state))  # a fault of the disk may not say where it was
            raise
        shutil.rmtree(folder, ignore_errors=True)


def _discard_others(folder: Path, state: Path) -> None:
    """Remove the resume state that cannot be used: of other data, parameters, code or another number of threads."""
    others = [path for path in folder.glob("*") if path != state]
    for path in others:
        shutil.rmtree(path, ignore_errors=True)
    if others:
        echo(f"{folder}: resume state discarded: its data, parameters, code or number of threads differ from this run")


def _forget_halves(state: Path) -> None:
    for path in state.rglob(f"step-*{HALVES}"):
        shutil.rmtree(path, ignore_errors=True)
    for note in state.glob("*.json"):
        with suppress(*UNREADABLE):
            if _read_note(note)["halved"]:
                note.unlink()


def finish(folder: Path, checkpoints: Checkpoints, about: Any = None) -> None:
    """Note that a part of the work is done: every file of `folder` as it is now, and what is told `about` it.

    Its `checkpoints` go.
    """
    _write_note(_note(folder), {"files": _files(folder), "halved": checkpoints.halved, "about": about})
    checkpoints.clear()


def finished(folder: Path) -> Any:
    """The note of what is done, with its `about`; None where it is not, or is no longer as it was, and so goes."""
    try:
        note = _read_note(_note(folder))
        if note["files"] == _files(folder):
            return note
    except UNREADABLE:
        pass
    _note(folder).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return None


def _note(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _files(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): sha256(file) for file in sorted(folder.rglob("*")) if file.is_file()}


def fingerprint(*facts: Any) -> str:
    """Of `facts`, which JSON can hold or which say what they are, of PyTorch, and of as much of pithy as is loaded."""
    loaded = {getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith(OWN)}
    code = [sha256(Path(file)) for file in sorted(filter(None, loaded))]
    return _digest(json.dumps([facts, code, torch.__version__], sort_keys=True, default=str))[:16]


def _read(path: Path) -> State:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    said = _read_note(path / "state.json")
    if said["sha256"] != sha256(path / "state.safetensors"):
        raise PithyError(f"{path} is not as it was written")
    try:
        return State(load_file(path / "state.safetensors"), said["facts"])
    except SafetensorError as error:
        raise PithyError(f"{path} cannot be read: {error}") from None


def _write_note(path: Path, note: dict[str, Any]) -> None:
    write_json(path, {**note, "digest": _digest(note)})


def _read_note(path: Path) -> dict[str, Any]:
    """A note as it was written. Raises PithyError, KeyError, TypeError or AttributeError for any other."""
    note: dict[str, Any] = read_json(path)
    if note.pop("digest") != _digest(note):
        raise PithyError(f"{path} is not as it was written")
    return note


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _seconds() -> float:
    text = os.environ.get(OFTEN, str(SECONDS))
    try:
        return max(0.0, float(text))
    except ValueError:
        raise ParameterError(f"{OFTEN} was {text!r}: a number of seconds is allowed") from None
