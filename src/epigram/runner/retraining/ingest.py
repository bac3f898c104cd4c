"""Ingestion of new labelled rows, from a folder or a database, into the growing data set.

No row is lost or added twice, whatever happens meanwhile. The data set is replaced atomically, texts that it already
contains are skipped, and a file is archived only if it is still the file whose rows were added.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from epigram.core.config_types import check_name, shown
from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import atomic_file, write_text
from epigram.data.sources.source import GROWING_SUFFIX, Source, load_source
from epigram.data.validation.settings import ValidateSettings
from epigram.runner.retraining import inbox
from epigram.runner.workspace.settings import RetrainSettings, Settings

if TYPE_CHECKING:
    import polars as pl

    from epigram.data.incoming_rows import NewRows
    from epigram.data.validation.validate import Validated

HEAD = "# Written by the first retraining; data/sources/local.yaml explains every line. New labels are added here.\n"
QUERY_FILE = "rows.parquet"  # the result of the database query


@dataclass(frozen=True, kw_only=True)
class Ingestion:
    """Result of an ingestion.

    `rows` counts the added rows, and `dev` the added rows in the development split. `known` counts the skipped rows
    whose text was already known. `files` are the archived files; `skipped` says why each other file was left in place.
    """

    dataset: str
    rows: int = 0
    dev: int = 0
    known: int = 0
    files: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.rows + self.known:
            return f"no new rows for {self.dataset}"
        known = f"; skipped {self.known:,} with a text that is already in it" if self.known else ""
        return f"added {self.rows:,} new rows to {self.dataset}, {self.dev:,} of them to the development split{known}"


def ingest_rows(root: Path, dataset: str, settings: Settings) -> Ingestion:
    """Add the waiting rows to the growing data set of `dataset`, which is created if it is missing.

    Links, files without rows or labels, and files that change meanwhile stay in the inbox; the rest is ingested.
    Raises DataError with all violations, and changes nothing, if a file cannot be read or a row breaks a rule.
    """
    name, base = grown_name(dataset), dataset.removesuffix(GROWING_SUFFIX)
    folder = inbox.inbox_folder(root, settings.retrain.incoming)
    rows, description_file = dataset_files(root, name)
    _create_dataset(root, base, rows, description_file, settings)
    source = row_source(root, name)
    with TemporaryDirectory() as scratch, inbox.open_inbox(folder) as files:
        new = _read([*files, *query_database(root, settings.retrain, Path(scratch))], source, settings.validate, folder)
        ingestion = (
            Ingestion(dataset=name) if new.frame is None else _append(rows, new.frame, source, settings.validate)
        )
        archived = [file for file in files if file in new.digests and inbox.archive(folder, file, new.digests[file])]
    changed = (
        f"{file.parent / shown(file.name)} changed after it was read; the next retraining reads it again"
        for file in files
        if file in new.digests and file not in archived
    )
    skipped = (*inbox.link_messages(folder), *(inbox.original_paths(line, folder) for line in (*new.skipped, *changed)))
    return replace(ingestion, files=tuple(file.name for file in archived), skipped=skipped)


def grown_name(dataset: str) -> str:
    """Return the name of the growing data set of `dataset`. Raises ParameterError if `dataset` is no valid name."""
    check_name("dataset", dataset)
    return f"{dataset.removesuffix(GROWING_SUFFIX)}{GROWING_SUFFIX}"


def dataset_files(root: Path, name: str) -> tuple[Path, Path]:
    """Return the files with the rows and with the description of the growing data set `name`.

    Raises InputMissingError if it is described, but its rows are missing.
    """
    rows, description_file = root / "data" / "local" / f"{name}.parquet", root / "data" / "sources" / f"{name}.yaml"
    if description_file.exists() and not rows.exists():
        raise InputMissingError(
            f"{rows} is missing, but {description_file.name} describes it; restore it (dvc get . data/raw/{rows.name} "
            f"--rev champion -o {rows.parent}), or delete {description_file} to start again from "
            f"{name.removesuffix(GROWING_SUFFIX)}"
        )
    return rows, description_file


def row_source(root: Path, name: str) -> Source:
    """Return the source of new rows for the data set `name`: the base's columns, and all labels known so far."""
    folder = root / "data" / "sources"
    return replace(load_source(name.removesuffix(GROWING_SUFFIX), folder), labels=load_source(name, folder).labels)


def query_database(root: Path, settings: RetrainSettings, scratch: Path) -> list[Path]:
    """Query the database and return the file in `scratch` with the result; an empty list if there are no rows."""
    if settings.database is None:
        return []
    from epigram.data.sources.access import check_sqlite_file, expand_variables
    from epigram.data.sources.sql_and_hub import write_table

    full = expand_variables(settings.database.url)
    if full.startswith("sqlite://"):
        file = root / check_sqlite_file(settings.database.url, full, root)
        inbox.check_ignored(root, Path(os.path.normpath(file)), "database.url")
    try:
        write_table(settings.database.url, settings.database.query, scratch / QUERY_FILE, root)
    except DataError:  # an empty result
        return []
    return [scratch / QUERY_FILE]


def _create_dataset(root: Path, base: str, rows: Path, description_file: Path, settings: Settings) -> None:
    """Create the growing data set from the base.

    The description is written after the rows, because rows without a description are not used.
    """
    if description_file.exists():
        return
    import yaml

    from epigram.data.growing_dataset import base_rows, describe

    source = load_source(base, root / "data" / "sources")
    if source.task not in {"single", "multi"}:
        raise DataError(f"{base} does not label texts (task: {source.task}); retraining requires task single or multi")
    (root / ".epigram").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=root / ".epigram") as scratch:
        validated = _validated(root, source, settings, Path(scratch))
        if not rows.exists():
            _write(rows, base_rows(validated, source.keep))
    description = describe(source, validated.corpus.labels, rows.stem)
    write_text(description_file, HEAD + yaml.safe_dump(description, sort_keys=False, allow_unicode=True, width=118))


def _validated(root: Path, source: Source, settings: Settings, scratch: Path) -> Validated:
    """Download and validate the base as the pipeline does, but with all its training rows."""
    from epigram.data.corpus import spool_corpus
    from epigram.data.sources.fetch import Fetcher
    from epigram.data.validation.validate import validate

    fetcher = Fetcher(root / ".epigram" / "downloads", settings.download)
    for file in source.files:
        fetcher.fetch(replace(file, local=file.local and str(root / file.local)), scratch)
    (scratch / "spool").mkdir()
    with_dev = replace(source, folds=0)  # new rows are added to dev
    all_rows = replace(settings.validate, max_train_rows=None)  # the pipeline limits the rows of each run
    validated = validate(spool_corpus(source, scratch, scratch / "spool"), with_dev, all_rows)
    fetcher.clear()
    return validated


def _read(tables: Sequence[Path], source: Source, settings: ValidateSettings, folder: Path) -> NewRows:
    from epigram.data.incoming_rows import read_rows

    try:
        return read_rows(tables, source, settings)
    except DataError as error:
        raise DataError(inbox.original_paths(str(error), folder)) from None


def _append(rows: Path, new: pl.DataFrame, source: Source, settings: ValidateSettings) -> Ingestion:
    import polars as pl

    from epigram.data.growing_dataset import append_rows, check_rows

    live = pl.read_parquet(rows, glob=False)
    after = append_rows(live, new, settings.dev)
    added = after[live.height :]
    if added.height:
        check_rows(after, rows.stem, source, settings)
        _write(rows, after)
    return Ingestion(
        dataset=rows.stem,
        rows=added.height,
        dev=added.filter(pl.col("split") == "dev").height,
        known=new.height - added.height,
    )


def _write(path: Path, frame: pl.DataFrame) -> None:
    with atomic_file(path) as temporary:
        frame.write_parquet(temporary)
