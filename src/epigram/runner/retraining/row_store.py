"""Store of a growing data set's files by hash, in DVC's cache of the repository's main worktree.

It contains the base's rows and, of each accepted batch, the file as it arrived and its rows. `dvc gc` lists only
folders of DVC's own hashes, so no variant of it deletes these files; they are deleted when a batch is withdrawn.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from epigram.core.errors import DataError
from epigram.core.files import atomic_file, sha256
from epigram.runner.git import git


class RowStore:
    """Files of the data set `name`, named by their SHA-256 and suffix."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name

    @cached_property
    def folder(self) -> Path:
        """The folder with the files; all worktrees share it, as they share the ledger."""
        from epigram.runner.dvc.adapter import shared_cache_folder

        common, prefix = (git(self.root, "rev-parse", f"--{name}") for name in ("git-common-dir", "show-prefix"))
        main = (self.root / common).resolve().parent / prefix
        return shared_cache_folder(main if (main / ".dvc").is_dir() else self.root) / "epigram" / self.name

    def keep(self, file: Path, digest: str = "") -> str:
        """Copy a file into the store and return its SHA-256. Raises DataError if it changes, or is not `digest`."""
        digest = digest or sha256(file)
        if self.find(name := f"{digest}{file.suffix.lower()}") is None:
            with atomic_file(self.folder / name) as temporary:
                shutil.copyfile(file, temporary)
                if sha256(temporary) != digest:
                    raise DataError(f"{file} changed while it was copied")
        return digest

    def find(self, name: str) -> Path | None:
        """Return the path of a stored file; None if it is missing or damaged."""
        path = self.folder / name
        return path if path.is_file() and sha256(path) == name.partition(".")[0] else None

    def remove(self, names: Iterable[str]) -> None:
        """Delete stored files."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
