"""Inbox for new rows: a file in it passes through three folders.

    incoming/x.csv → incoming/working/x.csv → incoming/taken/x.csv

A file is moved to working/ before it is read. Therefore exactly the file that was read is archived, even if another
file arrives under the same name meanwhile. A killed process leaves files in working/. The next retraining reads them
again and skips rows that are already known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import chain, count
from pathlib import Path

from epigram.core.config_types import shown
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.files import rename_no_replace, sha256
from epigram.core.settings import read_params
from epigram.data.sources.source import Source
from epigram.evaluation.comparison.formats import join_names
from epigram.process.display import one_line
from epigram.runner.workspace.settings import RetrainSettings

WORKING = "working"  # files that a retraining is reading
ARCHIVE = "taken"  # archived files, whose rows are in the data set
UNLABELLED = ".txt"
IN_PROGRESS = 3600  # seconds in which a hidden file that does not change counts as being written
MAX_NAME_BYTES = 255  # maximum length of a file name in bytes


def inbox_folder(root: Path, incoming: str) -> Path:
    """Return the inbox folder, `retrain.incoming` of params.yaml, or the target of a link there.

    Files in this folder are moved. Raises ParameterError if the folder can contain files that the project itself needs,
    or if DVC does not ignore it, InputMissingError for a link to no folder.
    """
    inbox, local = (Path(os.path.normpath(each)) for each in (root / incoming, root / "data" / "local"))
    if inbox.is_symlink():
        check_ignored(root, inbox, "incoming")  # DVC follows links
        inbox = inbox.resolve()
        if not inbox.is_dir():
            raise InputMissingError(f"params.yaml: retrain.incoming is a link to {inbox}, which is not a folder")
    if inbox == local or root.is_relative_to(inbox) or (inbox.is_relative_to(root) and local not in inbox.parents):
        raise ParameterError(
            f"params.yaml: retrain.incoming is {shown(repr(incoming))}; expected a folder below data/local or outside "
            "of the repository, because retraining moves the files in it"
        )
    check_ignored(root, inbox, "incoming")
    return inbox


def invitation(root: Path, source: Source) -> str:
    """Return where to put new rows of the source, and with which columns; empty if only words have labels."""
    from epigram.data.incoming_rows import needed_columns

    if source.task == "tokens":
        return ""
    section = read_params(root / "params.yaml").get("retrain")
    folder = (section if isinstance(section, Mapping) else {}).get("incoming", RetrainSettings.incoming)
    columns = join_names(needed_columns(source))
    return f"new rows: put tables with the columns {columns} into {folder}, then run: epigram retrain"


def check_ignored(root: Path, path: Path, key: str) -> None:
    """Raise ParameterError if `path`, the place of new rows, is in data/local and neither in incoming nor ignored.

    The pipeline depends on data/local: new rows that arrive there during a retraining would change its inputs.
    """
    local, file = root / "data" / "local", root / ".dvcignore"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    ignored = ["data/local/incoming", *(line.strip().strip("/") for line in lines)]
    places = [str(each.relative_to(root)) for each in (path, *path.parents) if local in each.parents]
    if places and not any(fnmatchcase(place, pattern) for place in places for pattern in ignored):
        line = f"{places[-1]}*" if path.is_file() and path.parent == local else places[-1]  # SQLite adds x.db-wal
        raise ParameterError(
            f"params.yaml: retrain.{key} is in data/local, where new rows would change the inputs of a running "
            f"retraining; add the line /{shown(line)} to .dvcignore, or use a place outside of the repository"
        )


def waiting_files(folder: Path) -> list[Path]:
    """Return all files that wait to be ingested, sorted by name. Raises InputMissingError if `folder` is no folder."""
    if not folder.exists():
        return []
    if not folder.is_dir():
        raise InputMissingError(f"params.yaml: retrain.incoming is {folder}, which is not a folder")
    return sorted((*files_in(folder), *files_in(folder / WORKING)), key=lambda file: file.name)


def left_entries(folder: Path) -> list[str]:
    """Return a message about each entry of the folder that is never read."""
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    return [f"{folder / shown(entry.name)} {reason}" for entry in entries if (reason := _reason_to_leave(entry))]


def _reason_to_leave(entry: Path) -> str:
    """Return why an entry is not read, and what to do; links are not read, because they may point anywhere."""
    from epigram.data.packed import file_suffix
    from epigram.data.tables import formats

    if not _is_visible(entry):
        is_data = file_suffix(entry) in formats() and entry.is_file()
        is_old = is_data and time.time() - entry.stat().st_mtime > IN_PROGRESS
        return "is hidden and has not changed for an hour; rename it if it is complete, or remove it" if is_old else ""
    if one_line(entry.name) != entry.name:
        return "has a line end in its name; rename it"  # every message with the name would have a forged line
    if entry.is_symlink():
        return "is a link; replace it with the file itself"
    if entry.is_dir():
        return "" if entry.name in {WORKING, ARCHIVE} else "is a folder; move its files out of it, or remove it"
    return "" if entry.is_file() else "is not a file; remove it"


@contextmanager
def open_inbox(folder: Path) -> Iterator[list[Path]]:
    """Move the labelled files to working/ and yield them; on exit, move back files that are not archived."""
    if not any(map(has_labels, waiting_files(folder))) and not (folder / WORKING).exists():
        yield []
        return
    _check_is_folder(folder / ARCHIVE)  # checked first: no row has been added
    working = _subfolder(folder, WORKING)
    try:
        for file in filter(has_labels, files_in(folder)):
            with suppress(FileNotFoundError):  # it was removed meanwhile
                _move(file, working)
        yield files_in(working)
    finally:
        for file in list(working.iterdir()):
            _move(file, folder)
        with suppress(OSError):  # it contains a new file
            working.rmdir()


def archive(folder: Path, file: Path, digest: str) -> bool:
    """Move an ingested file to taken/; if its SHA-256 is no longer `digest`, leave it and return False."""
    if sha256(file) != digest:
        return False
    target = _move(file, _subfolder(folder, ARCHIVE))
    if sha256(target) == digest:
        return True
    _move(target, folder)  # a process still had it open and wrote to it
    return False


def original_paths(text: str, folder: Path) -> str:
    """Replace paths in working/ in a message by the paths that the files have before and afterwards."""
    return text.replace(f"{folder / WORKING}{os.sep}", f"{folder}{os.sep}")


def has_labels(file: Path) -> bool:
    """Return whether a file contains labels; a .txt file contains only texts."""
    return file.suffix.lower() != UNLABELLED


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder that are read, sorted by name; hidden files are still being written."""
    if not folder.is_symlink() and folder.is_dir():
        with suppress(FileNotFoundError):  # a retraining removes working/ at its end
            return sorted(
                file for file in folder.iterdir() if file.is_file() and _is_visible(file) and not _reason_to_leave(file)
            )
    return []


def _is_visible(file: Path) -> bool:
    return not file.name.startswith(".")


def _subfolder(folder: Path, name: str) -> Path:
    path = folder / name
    _check_is_folder(path)
    path.mkdir(exist_ok=True)
    return path


def _check_is_folder(path: Path) -> None:
    """Raise DataError if a link or a file is in the place of the folder `path`."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        kind = "a link" if path.is_symlink() else "a file"
        raise DataError(f"{path} is {kind}; remove it, so that a folder can be created there")


def _move(file: Path, folder: Path) -> Path:
    """Move a file into the folder, under a new name if its own is taken."""
    names = chain([file.name], (_numbered(file, number) for number in count(2)))
    return next(target for name in names if rename_no_replace(file, target := folder / name))


def _numbered(file: Path, number: int) -> str:
    """Return the file name with a number, shortened if it is too long for the file system."""
    from epigram.data.packed import file_stem, file_suffix

    stem, suffix = file_stem(file), f"-{number}{file_suffix(file)}"
    while stem and len(os.fsencode(stem + suffix)) > MAX_NAME_BYTES:
        stem = stem[:-1]
    return stem + suffix
