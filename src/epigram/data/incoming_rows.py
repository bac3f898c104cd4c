"""New rows of a data set in separate csv, tsv, jsonl or parquet files with the data set's columns.

Texts without labels can also be in txt files, one text per line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from epigram.core.config_types import shown
from epigram.core.errors import DataError
from epigram.core.files import sha256
from epigram.data.readers import READERS, read_corpus
from epigram.data.readers.csv_quoting import read_forgiving
from epigram.data.readers.decoding import guess_encoding, lines
from epigram.data.sources.add import KINDS
from epigram.data.sources.source import File, Source
from epigram.data.validation import violations
from epigram.data.validation.row_batches import Rows
from epigram.data.validation.row_scan import survey
from epigram.data.validation.settings import Action, ValidateSettings
from epigram.data.validation.text_matching import exact_text, label_column

UNLABELLED = ".txt"
NAMED = ("text", "join", "label", "label_separator")  # options of a source that also apply to new files


class FileLeftError(DataError):
    """Error for a file that is skipped for now; other files can still be read."""


@dataclass(frozen=True)
class NewRows:
    """New rows in `frame`: text, label (or labels), file, line; None if there are no rows.

    `digests` has the SHA-256 of each file that was read. `left` gives the reason for each skipped file.
    """

    frame: pl.DataFrame | None
    digests: dict[Path, str]
    left: list[str]


def read_rows(files: Sequence[Path], source: Source, settings: ValidateSettings) -> NewRows:
    """Return the rows of `files`, without those that `settings` says to drop. Files without rows are skipped.

    Raises DataError for all unreadable files at once, or else for all rows that violate a rule.
    """
    frames: list[pl.DataFrame] = []
    new, broken = NewRows(None, {}, []), []
    for file in files:
        try:
            new.digests[file], frame = _read_unchanged(file, source)
            frames.append(frame)
        except FileLeftError as why:
            new.left.append(str(why))
        except DataError as fault:
            broken.append(str(fault))
    if broken:
        raise DataError("\n".join(broken))
    if not frames:
        return new
    return replace(new, frame=_sound(pl.concat(frames, how="diagonal_relaxed"), source, settings))


def _read_unchanged(file: Path, source: Source) -> tuple[str, pl.DataFrame]:
    """Return the SHA-256 and the rows; raise FileLeftError if there are no rows or the file changes meanwhile."""
    before, name = sha256(file), file.parent / shown(file.name)
    try:
        found: pl.DataFrame | DataError = read_file(file, source) if file.stat().st_size else pl.DataFrame()
    except DataError as fault:
        found = fault
    if sha256(file) != before:
        raise FileLeftError(f"{name} changed while it was read: the next retraining reads it again")
    if isinstance(found, DataError):
        raise found
    if found.is_empty():
        raise FileLeftError(f"{name} has no rows: add some, or remove it")
    return before, found


def read_file(file: Path, source: Source) -> pl.DataFrame:
    """Return the rows of one file with their labels, not validated. Raises DataError if the file cannot be read."""
    return read_forgiving(lambda options: _read(file, source, options), _options(file, source))[1]


def read_texts(file: Path, source: Source) -> list[str]:
    """Return the non-empty texts of one file, with or without labels. Raises DataError if it cannot be read."""
    if file.suffix.lower() == UNLABELLED:
        frame = lines(file)
    else:
        options = {key: value for key, value in _options(file, source).items() if key != "label_separator"}
        kind, read = READERS[options.pop("reader")]
        frame = pl.concat(read(file, kind(**options | {"label": None})))
    return frame.select(exact_text()).filter(pl.col("text") != "")["text"].to_list()


def _options(file: Path, source: Source) -> dict[str, Any]:
    """Return the `read` options for a new file: the reader for its suffix, and the source's column names."""
    if file.suffix.lower() not in KINDS:
        raise DataError(f"{file} is none of {', '.join(KINDS)}: convert it, or take it away")
    tabular = source.read.get("reader") in {kind["reader"] for kind in KINDS.values()}
    named = {name: source.read[name] for name in NAMED if tabular and name in source.read}
    values = KINDS[file.suffix.lower()] | named
    if values["reader"] != "parquet" and (encoding := guess_encoding(file)) not in {"", "utf-8"}:
        values["encoding"] = encoding
    return values


def _read(file: Path, source: Source, options: dict[str, Any]) -> pl.DataFrame:
    common = {name: source.read[name] for name in ("names", "replace") if name in source.read}
    alone = replace(source, files=[File(path=file.name, read=common | options)], read={}, splits={}, rows={}, keep=[])
    return read_corpus(replace(alone, distinct=None), file.parent)


def _sound(frame: pl.DataFrame, source: Source, settings: ValidateSettings) -> pl.DataFrame:
    """Drop the rows that violate a rule with the action drop; raise DataError for violations that are errors."""
    seen = survey(Rows(frame.lazy()), source.task, source.labels)
    actions: dict[str, Action] = {rule: getattr(settings, name) for rule, name in violations.SETTINGS.items()}
    violations.refuse(seen.faults, actions, source.labels)
    doomed = seen.faults.filter(pl.col("rule").is_in([rule for rule, action in actions.items() if action == "drop"]))
    kept = frame.with_row_index("#row").filter(~pl.col("#row").is_in(doomed["row"].implode()))
    return kept.select("text", label_column(frame.columns), "file", "line")
