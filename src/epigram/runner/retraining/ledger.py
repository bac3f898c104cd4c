"""Ledger of a growing data set in git, on a ref of its own: each change of the data set's file, and its batches.

Each commit of refs/epigram/inbox/NAME contains ledger.json with all entries so far. Entries are only added. The ref is
moved by compare and swap, so of two processes that add an entry at the same time, one fails and has changed nothing.
The user's index, branches and files are not touched.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from epigram.core.config_types import Checked, Count, Strict, parse_json, validate_as
from epigram.core.errors import DataError, InputMissingError, TryAgainError
from epigram.runner.champions.champion import AUTHOR
from epigram.runner.champions.champion_refs import resolve
from epigram.runner.git import git, read_file_at

FILE = "ledger.json"
Sha256 = Annotated[str, Checked(re.compile("[0-9a-f]{64}").fullmatch, "a SHA-256")]


@dataclass(frozen=True, kw_only=True)
class AcceptedBatch(Strict):
    """Accepted file, or rows from the database: `rows` counts the added rows, `known` the rows that were skipped.

    `sha256` is the checksum of the file as it arrived, `stored` the checksum of the parquet file with its rows.
    """

    number: Count
    name: str
    sha256: Sha256
    stored: Sha256
    rows: Count
    known: Count = 0

    @property
    def is_queried(self) -> bool:
        """Whether the rows are from the database, so that there is no file."""
        return self.sha256 == self.stored

    @property
    def kept(self) -> tuple[str, str]:
        """Names of the two files in the store."""
        return f"{self.sha256}{Path(self.name).suffix.lower()}", f"{self.stored}.parquet"


@dataclass(frozen=True, kw_only=True)
class Entry(Strict):
    """Change of the data set's file, whose SHA-256 was `before` and is `after`.

    An entry with a `base` begins the data set, or replaces its base: `base` is the SHA-256 of the rows, `source` the
    SHA-256 of the base's description and files, `labels` are the base's labels. `number` is the last batch that the
    base has.
    """

    kind: Literal["start", "batches", "rebuild", "forget"]
    after: Sha256
    time: str
    before: Sha256 | None = None
    base: Sha256 | None = None
    source: str = ""
    labels: list[str] | None = None
    number: Count = 0
    batches: list[AcceptedBatch] | None = None  # accepted or withdrawn


@dataclass(frozen=True)
class Ledger:
    """All entries of a data set's ledger, oldest first, and the commit that contains them."""

    commit: str
    entries: list[Entry]

    @property
    def after(self) -> str:
        """SHA-256 that the data set's file must have."""
        return self.entries[-1].after

    @property
    def base(self) -> Entry:
        """Entry with the current base."""
        return next(entry for entry in reversed(self.entries) if entry.base)

    @cached_property
    def batches(self) -> list[AcceptedBatch]:
        """Accepted batches that were not withdrawn, oldest first."""
        found: list[AcceptedBatch] = []
        for entry in self.entries:
            listed = entry.batches or []
            found = [each for each in found if each not in listed] if entry.kind == "forget" else [*found, *listed]
        return found

    @property
    def withdrawn(self) -> set[str]:
        """Names of stored files that no accepted batch needs any more."""
        listed = [each for entry in self.entries if entry.kind == "forget" for each in entry.batches or []]
        return {name for batch in listed for name in batch.kept} - {
            name for batch in self.batches for name in batch.kept
        }

    @property
    def next_number(self) -> int:
        """Number of the next batch; numbers of withdrawn batches are not used again."""
        used = [number for entry in self.entries for number in (entry.number, *(b.number for b in entry.batches or []))]
        return 1 + max(used)

    def accepted(self, batch: AcceptedBatch) -> str:
        """Return the time when the batch was accepted."""
        return next(entry.time for entry in self.entries if batch in (entry.batches or []))


def ref(name: str) -> str:
    """Return the ref of a data set's ledger; git allows no `..` in a ref."""
    return f"refs/epigram/inbox/{name.replace('..', '.%2E')}"


def read(root: Path, name: str) -> Ledger | None:
    """Return the ledger of the data set `name`, or None if there is none yet."""
    commit = resolve(root, ref(name))
    if commit is None:
        return None
    where = f"{FILE} at {ref(name)}"
    try:
        values = parse_json(read_file_at(root, commit, FILE))
    except (InputMissingError, ValueError) as error:
        raise DataError(f"{where} cannot be read ({error}); set the ref to its last valid commit") from None
    entries = validate_as(list[Entry], values, file=where)
    if not entries or not entries[0].base:
        raise DataError(f"{where} does not begin with a base; set the ref to its last valid commit")
    return Ledger(commit, entries)


def append(root: Path, name: str, ledger: Ledger | None, entry: Entry) -> Ledger:
    """Add `entry` to the ledger and return the new ledger. Raises TryAgainError if another process was faster."""
    entries = [*(ledger.entries if ledger else ()), entry]
    text = json.dumps([asdict(each) for each in entries], indent=1) + "\n"
    blob = git(root, "hash-object", "-w", "--stdin", text=text, durable=True)
    tree = git(root, "mktree", text=f"100644 blob {blob}\t{FILE}\n", durable=True)
    before = ledger.commit if ledger else "0" * len(blob)
    parents = ["-p", before] if ledger else []
    commit = git(root, "commit-tree", tree, *parents, "-m", f"{name}: {entry.kind}", env=AUTHOR, durable=True)
    try:
        git(root, "update-ref", "--no-deref", ref(name), commit, before, durable=True)
    except InputMissingError:
        if resolve(root, ref(name)) != (ledger.commit if ledger else None):
            raise TryAgainError(f"another process has changed the rows of {name}; start again") from None
        raise
    return Ledger(commit, entries)
