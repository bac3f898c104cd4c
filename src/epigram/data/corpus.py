"""Reading of a source's files into one table: text, label or labels, split, file, line and optional columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import polars as pl
import polars.selectors as cs

from epigram.core.config_types import nearest, parse_json, shown, validate_as
from epigram.core.errors import DataError, ParameterError
from epigram.data.readers import KINDS
from epigram.data.sources.source import ROLES, File, Source, SourceSection
from epigram.data.splitting import sample_rows, split_rows
from epigram.data.validation.token_labels import OUTSIDE

COLUMNS = pl.Schema({"tokens": pl.List(pl.String), "token_labels": pl.List(pl.String)})


def label_tokens(frame: pl.DataFrame, language: Literal["zh", "en"], file: str) -> pl.DataFrame:
    """Replace the column `spans` by tokens and token_labels.

    A span is a substring of the text (its first occurrence counts), or start and end in characters, with or without a
    label: [0, 5], [0, 5, "LOC"], {"start": 0, "end": 5, "label": "LOC"}. A span without a label has the label of the
    row. Tokens are as in the `token` view: characters in Chinese, words in English. Raises DataError for a span that is
    not in its text or has no label.
    """
    rows = []
    single = frame.schema.get("label") == pl.String
    row_label = pl.col("label") if single else pl.lit(None, pl.String).alias("label")
    for line, text, label, spans in frame.select("line", "text", row_label, "spans").iter_rows():
        where = f"{file}:{line}"
        located = [_locate_span(span, text, label, where) for span in _parse_spans(spans, where)]
        tokens = _tokenize(text, language)
        labels = [
            next((name for begin, stop, name in located if start < stop and begin < end), OUTSIDE)  # the first span
            for _, start, end in tokens
        ]
        rows.append(([token for token, _, _ in tokens], labels))
    return frame.drop("spans").hstack(pl.DataFrame(rows, schema=COLUMNS, orient="row"))


def _parse_spans(spans: Any, where: str) -> list[Any]:
    """Return a list of spans, which is JSON in csv and jsonl."""
    try:
        found = parse_json(spans) if isinstance(spans, str) and spans else spans or []
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise DataError(f"{where}: the spans are {shown(repr(spans))}; expected a list")
    return found


def _locate_span(span: Any, text: str, label: str | None, where: str) -> tuple[int, int, str]:
    """Return start, end and label of a span."""
    if isinstance(span, str):
        start = text.find(span)
        end = start + len(span)
    else:
        values: Sequence[Any] = (
            [span.get(key, span.get(f"{key}_offset")) for key in ("start", "end", "label")]
            if isinstance(span, dict)
            else [*span, None, None]
        )
        label = label if values[2] is None else str(values[2])
        start, end = _to_int(values[0]), _to_int(values[1])
    if not 0 <= start < end <= len(text):
        raise DataError(f"{where}: span {shown(repr(span))} is not in the text {shown(repr(text))}")
    if label is None:
        raise DataError(f"{where}: span {shown(repr(span))} has no label")
    return start, end, label


def _to_int(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return -1


def _tokenize(text: str, language: str) -> list[tuple[str, int, int]]:
    """Return token, start and end of each token; whitespace between words is left out."""
    if language == "zh":
        return [(character, index, index + 1) for index, character in enumerate(text)]
    from tokenizers import Regex, pre_tokenizers

    from epigram.text.tokens.tokenizers import WORD_PATTERN

    words = pre_tokenizers.Split(Regex(WORD_PATTERN), "removed", invert=True).pre_tokenize_str(text)
    return [(text[start:end], start, end) for _, (start, end) in words]


NO_READER = "none"  # the reader of a file without texts
NO_LETTERS = r"[^\p{L}\p{N}]"


@dataclass(frozen=True, kw_only=True)
class ReaderOptions(SourceSection):
    """Options of every reader."""

    reader: str
    names: dict[str, str] = field(default_factory=dict)  # label in the file → name
    named_only: bool = False  # leave out rows whose label is not in `names`
    file_label: str | None = None  # the label of every row of the file
    replace: dict[str, str] = field(default_factory=dict)  # substrings of the text → their replacements


def read_corpus(source: Source, raw: Path) -> pl.DataFrame:
    """Return all rows of a source in memory, with the columns and errors of `spool_corpus`."""
    with TemporaryDirectory() as spool:
        return spool_corpus(source, raw, Path(spool)).collect()


def spool_corpus(source: Source, raw: Path, spool: Path, headers: Counter[str] | None = None) -> pl.LazyFrame:
    """Return all rows of a source, in the order of its files and their lines, via parquet files in the folder `spool`.

    Columns: text; label (or labels, a list; neither if the task is tokens); split (train, dev, test or null); file;
    line (first line of the row in the file, from 1); tokens and token_labels if the source has them; the kept columns.
    Rows that repeat the column names are left out, and counted in `headers` under the path of their file. Leading and
    trailing whitespace is stripped from labels, and from texts unless spans refer to positions in them.
    Raises DataError for invalid file content, InputMissingError for a missing file, ParameterError for options that
    the reader does not have.
    """
    counts = Counter[str]() if headers is None else headers
    spooled = (_spool_file(source, file, raw, spool, counts) for file in source.files)
    frames = [frame for frame in spooled if frame is not None]
    if not frames:
        raise ParameterError(f"dataset {source.name} has only files and no texts; choose another dataset")
    frame = split_rows(_concatenate(frames, source), source)
    if source.sample is not None and source.sample.resplit:
        frame = frame.with_columns(split=pl.lit(None, pl.String))
    if source.distinct is not None:
        frame = _drop_repeated_texts(frame.collect(), letters_only=source.distinct == "letters").lazy()
    if source.sample is not None:
        frame = sample_rows(frame.collect(), source.sample).lazy()
    _check_row_counts(frame, source)
    roles = [name for name in ROLES if name in frame.collect_schema()]
    return frame.select(cs.by_name(*roles, *source.keep))  # pl.col treats `*` and `^x$` as patterns


def _spool_file(source: Source, file: File, raw: Path, spool: Path, headers: Counter[str]) -> pl.LazyFrame | None:
    """Return one file's rows, written to parquet files; None for a file without texts."""
    parts: list[Path] = []
    for chunk in _read_file(source, file, raw, headers):
        parts.append(spool / f"{source.files.index(file)}-{len(parts)}.parquet")
        chunk.write_parquet(parts[-1], compression="lz4", statistics=False)
    return pl.scan_parquet(parts, glob=False) if parts else None


def _concatenate(frames: list[pl.LazyFrame], source: Source) -> pl.LazyFrame:
    try:
        frame = pl.concat(frames, how="diagonal_relaxed")
        columns = frame.collect_schema()
    except pl.exceptions.PolarsError:
        schemas = [frame.collect_schema() for frame in frames]
        mixed = [name for name in schemas[0] if len({schema.get(name, schemas[0][name]) for schema in schemas}) > 1]
        raise DataError(
            f"{source.name}: its files have different types of values in {shown(', '.join(mixed))}; convert them"
        ) from None
    for name in source.keep:
        if name not in columns:
            raise DataError(f"{source.name}: `keep` lists the column {name!r}, which none of its files has")
    return frame


def _read_file(source: Source, file: File, raw: Path, headers: Counter[str]) -> Iterator[pl.DataFrame]:
    """Yield one file's rows with their final labels, in chunks; nothing for a file without texts."""
    where = f"data/sources/{source.name}.yaml: read of {file.path}"
    values = {"reader": NO_READER} | source.read | file.read
    common = {key: values.pop(key) for key in _field_names(ReaderOptions) if key in values}
    options = validate_as(ReaderOptions, common, file=where)
    if options.reader == NO_READER:
        return
    if options.reader not in KINDS:
        raise ParameterError(
            f"{where}: unknown reader {options.reader!r}; {nearest(options.reader, [*KINDS, NO_READER])}"
        )
    kind = KINDS[options.reader]
    keep = {"keep": source.keep} if "keep" in _field_names(kind) else {}
    reader = validate_as(kind, values | keep, file=where)
    for frame in reader.read(raw / file.path):
        rows = reader.without_headers(frame)
        headers[file.path] += frame.height - rows.height
        yield _finish_rows(rows, options, source, file, where)


def _finish_rows(frame: pl.DataFrame, options: ReaderOptions, source: Source, file: File, where: str) -> pl.DataFrame:
    """Add the file name, the final labels and the tokens that spans mark to a reader's rows."""
    if "file" not in frame.columns:
        frame = frame.with_columns(file=pl.lit(file.path))
    frame = _apply_labels(_clean_text(frame, options), options, source, where)
    if "spans" in frame.columns:
        frame = label_tokens(frame, source.language, file.path)
    return frame.rename({"label": "labels"}) if source.task == "multi" else frame


def _field_names(kind: type[Any]) -> list[str]:
    return [item.name for item in fields(kind)]


def _clean_text(frame: pl.DataFrame, options: ReaderOptions) -> pl.DataFrame:
    """Apply `replace` and strip the text, unless spans refer to positions in it."""
    if "spans" in frame.columns:
        return frame
    text = pl.col("text")
    if options.replace:
        text = text.str.replace_many(options.replace)
    return frame.with_columns(text.str.strip_chars())


def _apply_labels(frame: pl.DataFrame, options: ReaderOptions, source: Source, where: str) -> pl.DataFrame:
    """Replace labels by their names, with the type that the task requires."""
    if options.file_label is not None:
        frame = frame.with_columns(label=pl.lit(options.file_label))
    if source.task == "tokens":
        return frame.drop("label", strict=False)
    if "label" not in frame.columns:
        raise ParameterError(f"{where}: no label column; set label, file_label or sentence")
    if source.task == "single":
        return _apply_single_labels(frame, options, where)
    return _apply_multi_labels(frame, options, where)


def _apply_single_labels(frame: pl.DataFrame, options: ReaderOptions, where: str) -> pl.DataFrame:
    label = pl.col("label")
    if frame.schema["label"] != pl.String:
        label = label.list.drop_nulls()
        if frame.select((label.list.len() > 1).any()).item():
            raise ParameterError(f"{where}: a row has several labels; set task: multi")
        label = label.list.first()
    frame = frame.with_columns(label.str.strip_chars())
    if options.named_only:
        frame = frame.filter(pl.col("label").is_in(list(options.names)))
    return frame.with_columns(pl.col("label").replace(options.names))


def _apply_multi_labels(frame: pl.DataFrame, options: ReaderOptions, where: str) -> pl.DataFrame:
    """Replace the labels of each row by their names; a label that is then there twice counts once."""
    if frame.schema["label"] == pl.String:
        raise ParameterError(f"{where}: the labels of a row are one string; set label_separator")
    label = pl.element().str.strip_chars()
    if options.named_only:
        label = label.filter(label.is_in(list(options.names)))
    named = pl.col("label").list.eval(label.replace(options.names))
    frame = frame.with_columns(named.list.unique(maintain_order=True))
    return frame.filter(pl.col("label").list.len() > 0) if options.named_only else frame


def _drop_repeated_texts(frame: pl.DataFrame, *, letters_only: bool) -> pl.DataFrame:
    """Drop training rows with a text of dev or test, with the text of an earlier training row, or without a text.

    Rows without a split count as training rows. With `letters_only`, texts are equal if their letters and digits are
    equal, ignoring case.
    """
    text = pl.col("text")
    key = text.str.to_lowercase().str.replace_all(NO_LETTERS, "") if letters_only else text
    held_out = pl.col("split").is_in(["dev", "test"]).fill_null(False)
    seen = frame.filter(held_out).select(key.unique()).to_series()
    return frame.filter(held_out | (~key.is_in(seen.implode()) & key.is_first_distinct() & (text != "")))


def _check_row_counts(frame: pl.LazyFrame, source: Source) -> None:
    counts: dict[str | None, int] = dict(frame.group_by("split").len().collect().iter_rows())
    for name, expected in source.rows.items():
        found = sum(counts.values()) if name == "all" else counts.get(name, 0)
        if found != expected:
            raise DataError(
                f"{source.name} has {found} rows ({name}), expected {expected}; a file is truncated or has changed"
            )
