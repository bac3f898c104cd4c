"""Resume of an interrupted stage: the folder of its progress, and the parts of its work that are finished."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from epigram.core.errors import is_out_of_memory
from epigram.core.files import exclusive_lock, sha256
from epigram.process.display import echo
from epigram.training.distributed import parallel
from epigram.training.loop.checkpoints import HALVED_SUFFIX, Checkpoints
from epigram.training.notes import READ_ERRORS, digest, read_note, write_note

CODE_PREFIXES = ("epigram.", "__main__")  # modules whose code is part of the fingerprint if they are loaded
PACKAGE = Path(__file__).parents[1]
NAMED_PARTS = ("nn", "training")  # packages whose modules are imported by name, maybe after the fingerprint is taken


@contextmanager
def resume_folder(folder: Path, *facts: Any) -> Iterator[Path]:
    """Yield a folder in `folder`, which ends in STAGE/NAME, for the progress of a stage on NAME; remove it on success.

    The yielded folder depends on `facts` and the package's code. If memory runs out, progress with halved batches is
    removed, so that the next run has the same result as one with enough memory. Raises TryAgainError while another
    process does the same work.
    """
    state = folder / parallel.from_first(lambda: fingerprint(*facts))
    if parallel.rank():
        yield state
        return
    busy = f"another process is running {folder.parent.name} of {folder.name}; rerun when it has finished"
    with exclusive_lock(folder.with_name(f"{folder.name}.lock"), lambda process: busy):
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
            if read_note(note)["halved"]:
                note.unlink()


def mark_finished(folder: Path, checkpoints: Checkpoints, about: Any = None) -> None:
    """Record that a part of the work is finished: store `about` and the checksums of all files of `folder`.

    The `checkpoints` of this part are removed.
    """
    write_note(_note(folder), {"files": _files(folder), "halved": checkpoints.halved, "about": about})
    checkpoints.clear()


def read_finished(folder: Path) -> Any:
    """Return the record of a finished part, including `about`.

    If there is none, or if the files have changed, the part is removed and the result is None.
    """
    try:
        note = read_note(_note(folder))
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
    """Return a hash of `facts`, PyTorch's version, the loaded modules and the modules of NAMED_PARTS.

    `facts` are JSON values, or objects with a descriptive `str`.
    """
    loaded = {
        getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith(CODE_PREFIXES)
    }
    parts = {str(path) for package in NAMED_PARTS for path in (PACKAGE / package).rglob("*.py")}
    code = [sha256(Path(file)) for file in sorted(filter(None, loaded | parts))]
    return digest(json.dumps([facts, code, torch.__version__], sort_keys=True, default=str))[:16]
