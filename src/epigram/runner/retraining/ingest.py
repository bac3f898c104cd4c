"""Ingestion of new labelled rows, from a folder or a database, into the growing data set.

No row is lost or added twice, whatever happens meanwhile. The rows are stored and recorded in the ledger before the
data set is replaced, texts that it already contains are skipped, and a file is archived only if it is still the file
whose rows were added.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from epigram.core.config_types import shown
from epigram.core.errors import DataError
from epigram.data.sources.source import SPLIT_KEYS, Source
from epigram.data.validation.settings import ValidateSettings
from epigram.runner.retraining import inbox
from epigram.runner.retraining.ledger import AcceptedBatch
from epigram.runner.retraining.live_data import LiveData, grown_name, row_source
from epigram.runner.workspace.settings import RetrainSettings, Settings

if TYPE_CHECKING:
    import polars as pl

    from epigram.data.incoming_rows import NewRows

MAX_PLACES = 3  # skipped rows whose places are named
QUERY_FILE = ".database.parquet"  # the result of the database query; hidden files of the inbox are not read


@dataclass(frozen=True, kw_only=True)
class Ingestion:
    """Result of an ingestion.

    `rows` counts the added rows, `dev` the added rows in the development split, and `held_out` all of its rows. `total`
    is the number of rows of the data set. `known` counts the skipped rows whose text was already known, and `known_at`
    has the places of the first of them. `files` are the archived files; `skipped` says why everything else was left in
    place. `note` is a line for the user about the ledger, or empty.
    """

    dataset: str
    rows: int = 0
    dev: int = 0
    held_out: int = 0
    total: int = 0
    known: int = 0
    known_at: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        note = f"{self.note}\n" if self.note else ""
        if not self.rows + self.known:
            return f"{note}no new rows for {self.dataset}"
        places = ", ".join([*self.known_at, *(["…"] if self.known > len(self.known_at) else [])])
        known = f"; skipped {self.known:,} with a text that is already in it ({places})" if self.known else ""
        added = f"added {self.rows:,} new rows to {self.dataset}, {self.dev:,} of them to the development split"
        added += f"; {self.held_out:,} of its {self.total:,} texts are held out as development texts"
        return f"{note}{added}{known}"


def ingest_rows(root: Path, dataset: str, settings: Settings) -> Ingestion:
    """Add the waiting rows to the growing data set of `dataset`, which is created if it is missing.

    Entries of the inbox that are no files, files without rows or labels, and files that change meanwhile stay there;
    the rest is ingested. Raises DataError with all violations, and changes nothing, if a file cannot be read or a row
    breaks a rule, and DataError or InputMissingError if the data set is not as the last retraining left it.
    """
    live, folder = LiveData(root, grown_name(dataset), settings), inbox.inbox_folder(root, settings.retrain.incoming)
    note = live.prepare()
    source = row_source(root, live.name, settings.retrain.encoding)
    with TemporaryDirectory() as scratch, inbox.open_inbox(folder) as files:
        queried = query_database(root, settings.retrain, Path(scratch) / QUERY_FILE)
        new = _read([*files, *queried], source, settings.validate, folder)
        kept = [file for file in files if file in new.digests and _is_kept(live, file, new.digests[file])]
        ingestion = _append(live, new, kept, queried, source)
        archived = [file for file in kept if inbox.archive(folder, file, new.digests[file])]
    changed = (
        f"{file.parent / shown(file.name)} changed after it was read; the next retraining reads it again"
        for file in files
        if file in new.digests and file not in archived
    )
    skipped = (*inbox.left_entries(folder), *(inbox.original_paths(line, folder) for line in (*new.skipped, *changed)))
    return replace(ingestion, files=tuple(file.name for file in archived), skipped=skipped, note=note)


def query_database(root: Path, settings: RetrainSettings, target: Path) -> list[Path]:
    """Query the database and return the file `target` with the result; an empty list if there are no rows."""
    if settings.database is None:
        return []
    from epigram.data.sources.access import check_sqlite_file, expand_variables
    from epigram.data.sources.sql_and_hub import EmptyTableError, write_table

    full = expand_variables(settings.database.url)
    if full.startswith("sqlite://"):
        file = root / check_sqlite_file(settings.database.url, full, root)
        inbox.check_ignored(root, Path(os.path.normpath(file)), "database.url")
    try:
        write_table(settings.database.url, settings.database.query, target, root)
    except EmptyTableError:
        return []
    return [target]


def _read(tables: Sequence[Path], source: Source, settings: ValidateSettings, folder: Path) -> NewRows:
    from epigram.data.incoming_rows import read_rows
    from epigram.data.validation import violations

    try:
        return read_rows(tables, source, settings)
    except DataError as error:
        advice = f"to add a new label, list it under `labels` in data/sources/{grown_name(source.name)}.yaml"
        text = f"{error}\n{advice}" if violations.UNKNOWN_LABEL in str(error) else str(error)
        raise DataError(inbox.original_paths(text, folder)) from None


def _is_kept(live: LiveData, file: Path, digest: str) -> bool:
    """Store a file; return False if its SHA-256 is no longer `digest`."""
    with suppress(DataError, FileNotFoundError):
        return bool(live.store.keep(file, digest))
    return False


def _append(live: LiveData, new: NewRows, files: Sequence[Path], queried: Sequence[Path], source: Source) -> Ingestion:
    """Add the rows of `files` and of the database's result to the data set."""
    import polars as pl

    from epigram.data.growing_dataset import append_rows, check_rows, unknown_rows, with_splits

    if new.frame is None:
        return Ingestion(dataset=live.name)
    settings, before = live.settings.validate, live.read()
    frame = new.frame.filter(pl.col("file").is_in(list(map(_column_value, (*files, *queried)))))
    after = append_rows(before, frame, settings.dev, live.record.next_number)
    added = after[before.height :]
    if added.height:
        check_rows(after, live.name, source, settings)
    frame = with_splits(frame, after).with_columns(added=unknown_rows(before, frame))
    digests = {file: "" if file in queried else new.digests[file] for file in (*files, *queried)}
    if batches := [*_batches(live, frame, digests)]:
        live.commit(after if added.height else None, kind="batches", batches=batches)
    return Ingestion(
        dataset=live.name,
        rows=added.height,
        dev=int((added["split"] == "dev").sum()),
        held_out=int((after["split"] == "dev").sum()),
        total=after.height,
        known=frame.height - added.height,
        known_at=_places(frame.filter(~pl.col("added")), queried),
    )


def _places(rows: pl.DataFrame, queried: Sequence[Path]) -> tuple[str, ...]:
    """Return file and line of the first rows; of the database's result, only that it is from there."""
    hidden = {_column_value(file) for file in queried}
    first = rows.select("file", "line").head(MAX_PLACES).iter_rows()
    return tuple("the database" if file in hidden else f"{shown(file)}:{line}" for file, line in first)


def _batches(live: LiveData, frame: pl.DataFrame, digests: Mapping[Path, str]) -> Iterator[AcceptedBatch]:
    """Store the rows of each file, and yield its record, unless an accepted file had the same rows.

    `digests` has the SHA-256 of each file; it is empty for the result of the database query, of which only added rows
    are stored, because the next query returns all rows again.
    """
    import polars as pl
    import polars.selectors as cs

    from epigram.text.dataset.text_matching import label_column

    keys = cs.by_name(*SPLIT_KEYS, require_all=False)
    number, accepted = live.record.next_number, {batch.sha256 for batch in live.record.batches}
    for file, digest in digests.items():
        rows = frame.filter(pl.col("file") == _column_value(file), pl.col("added") | bool(digest))
        added = int(rows["added"].sum())
        if added or (digest and digest not in accepted):
            stored = live.keep(rows.select("text", label_column(rows.columns), "split", keys))
            name = _column_value(file) if digest else f"database-{number}.parquet"
            known = rows.height - added
            yield AcceptedBatch(
                number=number, name=name, sha256=digest or stored, stored=stored, rows=added, known=known
            )


def _column_value(file: Path) -> str:
    """Return the value of the column `file` for the rows of a file, whose name may be no UTF-8."""
    import polars as pl

    return str(pl.select(pl.lit(file.name)).item())
