"""The folder where new rows arrive, and the way of a file through it.

    incoming/x.csv → incoming/working/x.csv → incoming/taken/x.csv

A file is moved to working/ before it is read. So what is archived is what was read, whatever arrives under the same
name meanwhile. A process that is killed leaves files in working/: they are read again, and rows that are known already
are not taken again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path

from pithy.errors import DataError, InputMissingError, ParameterError
from pithy.files import rename_new, sha256
from pithy.values import shown

WORKING = "working"  # files that a retraining reads
TAKEN = "taken"  # files whose rows are in the data set
UNLABELLED = ".txt"
LONGEST = 255  # bytes of a file's name


def folder_of(root: Path, incoming: str) -> Path:
    """Return the folder that params.yaml names in retrain.incoming. Its files are moved.

    Raises ParameterError where files are that the project itself needs.
    """
    place, local = (Path(os.path.normpath(each)) for each in (root / incoming, root / "data" / "local"))
    if place == local or root.is_relative_to(place) or (place.is_relative_to(root) and local not in place.parents):
        raise ParameterError(
            f"params.yaml: retrain.incoming was {shown(repr(incoming))}: its files are moved, so that a folder of "
            "their own is needed, below data/local or outside of the repository"
        )
    return place


def arrived(folder: Path) -> list[Path]:
    """Every file that has arrived and is not taken, in the order of their names."""
    if not folder.exists():
        return []
    if not folder.is_dir():
        raise InputMissingError(f"{folder} is no folder: params.yaml names it in retrain.incoming")
    return sorted((*_files(folder), *_files(folder / WORKING)), key=lambda file: file.name)


def links(folder: Path) -> list[str]:
    """Return a line about each link in the folder. Links are not read: they may lead anywhere."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    linked = (file for file in found if file.is_symlink() and _is_shown(file))
    return [f"{file.parent / shown(file.name)} is a link: put the file itself there" for file in linked]


@contextmanager
def opened(folder: Path) -> Iterator[list[Path]]:
    """Move the files with labels to working/ and yield them; at the end, those that are not archived are moved back."""
    if not any(map(has_labels, arrived(folder))) and not (folder / WORKING).exists():
        yield []
        return
    working = _subfolder(folder, WORKING)
    try:
        for file in filter(has_labels, _files(folder)):
            with suppress(FileNotFoundError):  # its owner has taken it away
                _move(file, working)
        yield _files(working)
    finally:
        for file in list(working.iterdir()):
            _move(file, folder)
        with suppress(OSError):  # somebody has put a file there
            working.rmdir()


def archive(folder: Path, file: Path, digest: str) -> bool:
    """Move a file whose rows are in to taken/; False where its SHA-256 is no longer `digest`, and it stays."""
    if sha256(file) != digest:
        return False
    moved = _move(file, _subfolder(folder, TAKEN))
    if sha256(moved) == digest:
        return True
    _move(moved, folder)  # whoever wrote it had it open
    return False


def in_place(text: str, folder: Path) -> str:
    """A message about files in working/, with the paths that they have before and afterwards."""
    return text.replace(f"{folder / WORKING}{os.sep}", f"{folder}{os.sep}")


def has_labels(file: Path) -> bool:
    """Whether a file is to be learnt from: a list of texts is not."""
    return file.suffix.lower() != UNLABELLED


def _files(folder: Path) -> list[Path]:
    """The files of a folder, in the order of their names, without links. Hidden ones are still being written."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.is_symlink() and _is_shown(file))


def _is_shown(file: Path) -> bool:
    return not file.name.startswith(".")


def _subfolder(folder: Path, name: str) -> Path:
    place = folder / name
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        what = "a link" if place.is_symlink() else "a file"
        raise DataError(f"{place} is {what}: remove it, a folder is made in its place")
    place.mkdir(exist_ok=True)
    return place


def _move(file: Path, folder: Path) -> Path:
    """Move a file, under a new name where another one has its own."""
    names = chain([file.name], (_numbered(file, number) for number in count(2)))
    return next(target for name in names if rename_new(file, target := folder / name))


def _numbered(file: Path, number: int) -> str:
    """The file's name with a number, its end cut off where it would be too long for the file system."""
    stem, ending = file.stem, f"-{number}{file.suffix}"
    while stem and len(os.fsencode(stem + ending)) > LONGEST:
        stem = stem[:-1]
    return stem + ending
