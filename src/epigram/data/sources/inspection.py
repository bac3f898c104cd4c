"""Content of a labelled file as `epigram add` describes it: how it is read, its splits and labels, and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from epigram.core.config_types import parse_integer, shown
from epigram.core.errors import DataError, ParameterError, ReadOptionError
from epigram.core.label_paths import check_hierarchy, hierarchy_notes
from epigram.core.limits import list_names
from epigram.data import tables
from epigram.data.sources.source import CONTROL_CHARACTER, SPLIT_KEYS
from epigram.data.sources.text_folder import as_table
from epigram.data.splitting import SPLIT_BY_NAME
from epigram.data.tables import ACCEPTED, LABELLED_BY, Options
from epigram.data.times import parse_times
from epigram.data.validation.label_checks import label_notes, list_notes, rows_by_label, visible_label
from epigram.text.dataset.language import Language
from epigram.text.lines import BOM

ORDER_NOTE = (
    "only the metrics quadratic_kappa and mean_absolute_error use the order of the labels; name one by --metric of "
    "epigram fit, or by metric in params.yaml"
)
HAN = r"[\u4e00-\u9fff]"
# names of columns that are likely to have splits
SPLIT_COLUMNS = {"split", "set", "fold", "partition", "subset", "usage", "is_train", "is_test", "数据集"}
ANSWERS = "answer", {ACCEPTED, "reject", "ignore"}  # column of Prodigy and its values
GROUP_COLUMNS = re.compile(
    r"(author|user|customer|client|reviewer|speaker|patient|product|item|document|session|thread)(_?(id|name))?"
    "|asin|username|作者|用户|商品"
)
MIN_KEYS = 5  # different values of a column that looks like groups or times
HINTED = 1_000  # rows at most whose values decide whether a column looks like groups or times
BLANK = f"{BOM} \t\r\n"
MAX_VALUES = 20  # number of different values above which those of a column do not matter


@dataclass(frozen=True)
class Inspection:
    """What a file contains; `read` are the options to read it."""

    read: Options
    rows: int
    language: str
    task: str
    labels: list[str]
    splits: dict[str, list[str]]
    notes: list[str]
    keep: list[str] = field(default_factory=list)  # columns to keep
    hierarchy: str = ""  # separator of levels in the labels

    def in_order(self, ordered: Sequence[str] | None) -> Inspection:
        """Return the inspection with its labels `ordered`. Raises ParameterError unless these are its labels."""
        if ordered is None:
            return self
        if sorted(ordered) != sorted(self.labels):
            raise ParameterError(
                f"--ordered lists {', '.join(ordered)}; the labels of the texts are {', '.join(self.labels)}"
            )
        return replace(self, labels=list(ordered))

    def check_trainable(self, file: Path | str) -> None:
        """Raise DataError for fewer than two labels, ParameterError for a column that is unlikely to hold labels."""
        found, column = len(self.labels), self.read.get("label")
        if found < 2 and self.task != "tokens":
            raise DataError(
                f"{file} has {self.rows} rows with the labels {self.labels} in {column!r}; expected at least two labels"
            )
        if found > 20 and found * 2 > self.rows:
            raise ParameterError(
                f"--label is {column!r}, but this column of {file} has {found} different values in {self.rows} rows; "
                "choose the column with the labels"
            )

    def with_levels(self, separator: str) -> Inspection:
        """Return the inspection with the `separator` of levels in its labels; "" adds a note if they look like paths.

        Raises ParameterError if no label contains the separator.
        """
        check_hierarchy(separator, self.labels, "--hierarchy")
        notes = [] if separator else hierarchy_notes(self.labels)
        return replace(self, hierarchy=separator, notes=[*self.notes, *notes])

    def description(self, name: str, about: str, files: list[dict[str, str]], language: str | None) -> dict[str, Any]:
        """Return the content of a source's description; a given `language` replaces the guessed one."""
        return {
            "name": name,
            "about": about,
            "language": language or self.language,
            "task": self.task,
            "licence": "your own data",
            "files": files,
            "read": self.read,
            "splits": self.splits,
            "labels": self.labels,
            "rows": {"all": self.rows},
            **({"keep": self.keep} if self.keep else {}),
            **({"hierarchy": self.hierarchy} if self.hierarchy else {}),
        }


@contextmanager
def inspect_any(path: Path, options: Options) -> Iterator[tuple[Path, Inspection]]:
    """Yield a table and its description: `path` itself, or a temporary table of the texts in its folders of labels.

    Raises the errors of `inspect`, with advice for a command.
    """
    try:
        with as_table(path, options) as (table, reading, notes):
            found = inspect(table, reading)
            yield table, replace(found, notes=[*notes, *found.notes])
    except ReadOptionError as error:
        raise error.with_advice(**tables.COMMAND_ADVICE) from None


def inspect(file: Path, options: Options) -> Inspection:
    """Inspect `file`, of which `options` name the columns; without `split`, a column with the names of splits is used.

    `keep` lists further columns. Raises DataError for a file that cannot be read or with unknown splits, ParameterError
    for a column of `keep` that is missing, InputMissingError for a missing file.
    """
    keep = list(options.get("keep") or [])
    read = tables.detect(file, {key: value for key, value in options.items() if value and key != "keep"})
    content, notes = _read(file, read), list[str]()
    if missing := [name for name in keep if name not in content.sample.columns]:
        others = list_names(content.sample.columns) or "none"
        raise ParameterError(f"--slice is {shown(repr(missing[0]))}; the other columns of {file} are: {others}")
    if options["split"] is None:
        column, notes = _choose_split(content.values)
        read |= {"split": column} if column is not None else {}
    name, answers = ANSWERS
    if {ACCEPTED} != content.values.get(name, {ACCEPTED}) <= answers:
        read["accepted"] = name
    if "accepted" in read or "split" in read:
        rows, content = content.rows.height, _read(file, read)
        if rejected := rows - content.rows.height:
            notes.append(f"rows that are not accepted in the column {name!r} are left out: {rejected:,}")
    if content.values.get(LABELLED_BY, {""}) != {""}:
        keep = list(dict.fromkeys([*keep, LABELLED_BY]))
        rows, content = content.rows.height, _read(file, read | {"keep": [LABELLED_BY]})
        notes.append(_machine_note(content.rows, rows - content.rows.height))
    if not any(name in read for name in ("split", *SPLIT_KEYS)):
        notes += _key_hint(content.sample)
    if content.headers:
        notes.append(f"rows that repeat the column names are left out: {content.headers:,}")
    frame = content.rows
    splits = _find_splits(frame, file) if "split" in frame.columns else {}
    if "label" not in frame.columns:
        notes += _garbled_notes(frame)
        return Inspection(read, frame.height, guess_language(frame["text"]), "tokens", [], splits, notes, keep)
    lists = _count_labels(frame["label"])
    labels = rows_by_label(lists)
    if names := {label: name for label in labels if (name := visible_label(label)) != label}:
        read["names"] = names
        notes.append(_names_note(names, labels))
    visible = rows_by_label({(names.get(label, label),): rows for label, rows in labels.items()})
    return Inspection(
        read=read,
        rows=frame.height,
        language=guess_language(frame["text"]),
        task="multi" if any(len(each) != 1 for each in lists) else "single",
        labels=_sort_labels([label for label in visible if label], file),
        splits=splits,
        notes=[
            *notes,
            *_garbled_notes(frame),
            *(list_notes(lists) if frame.schema["label"] != pl.String else []),
            *label_notes(visible),
        ],
        keep=keep,
    )


def _machine_note(rows: pl.DataFrame, without: int) -> str:
    """Return a note on labels by a machine, and on the number of rows `without` a label from it."""
    left_out = f"; rows that it could not label are left out: {without:,}" if without else ""
    return (
        f"labels by a machine (column {LABELLED_BY!r}): {tables.count_marked(rows):,} of {rows.height:,}; a score "
        f"against these is agreement with the machine, not accuracy{left_out}"
    )


def _names_note(names: Mapping[str, str], rows: Mapping[str, int]) -> str:
    return (
        f"labels with invisible characters or decomposed letters: {list_names(map(ascii, names), 3)} "
        f"({sum(rows[label] for label in names):,} rows); they are read as "
        f"{list_names(map(repr, dict.fromkeys(names.values())), 3)} (read.names in the description)"
    )


@dataclass(frozen=True)
class _Content:
    """Rows of a file, the number of rows that were left out because they repeat the column names, and `values`.

    `values` has the values, in lower case, of each column without a role; columns of many different ones are left out.
    `sample` has the first values of all columns without a role.
    """

    rows: pl.DataFrame
    headers: int
    values: dict[str, set[str]]
    sample: pl.DataFrame


def _read(file: Path, options: Options) -> _Content:
    reader, frames, values, headers = tables.reader_of(options), [], dict[str, set[str]](), 0
    sample = pl.DataFrame()
    for lines, table in reader.tables(file):
        rows = tables.map_columns(table, reader, file, lines)
        is_header = reader.is_header(rows)
        headers += int(is_header.sum())
        if sample.is_empty():
            sample = table.head(HINTED).select(~cs.by_name(*reader.text_columns, reader.label or "", require_all=False))
        frames.append(rows.filter(~is_header))
        for name in table.columns:
            known = values.setdefault(name, set())
            if name not in {*reader.text_columns, reader.label} and len(known) <= MAX_VALUES:
                known |= _different_values(table[name]) - {name.strip().lower()}  # a repeated header
    values = {name: known for name, known in values.items() if 0 < len(known) <= MAX_VALUES}
    return _Content(pl.concat(frames), headers, values, sample)


def _different_values(column: pl.Series) -> set[str]:
    """Return the different values of a column, in lower case; none if they cannot be strings."""
    if not tables.has_texts(column.dtype):
        return set()
    return set(column.alias("").cast(pl.String).fill_null("").str.strip_chars(BLANK).str.to_lowercase().unique())


def _choose_split(values: Mapping[str, set[str]]) -> tuple[str | None, list[str]]:
    """Return the column that has the splits, by its name or else by its values, and notes on similar columns."""
    named = [name for name in values if name.strip().lower() in SPLIT_COLUMNS]
    known = {name: {SPLIT_BY_NAME[value] for value in found & SPLIT_BY_NAME.keys()} for name, found in values.items()}
    likely = [*named, *(name for name in values if name not in named and "train" in known[name] != {"train"})]
    for name in likely:
        if values[name] <= SPLIT_BY_NAME.keys():
            return name, []
    return None, [
        f"column {name!r} is not used: {min(values[name] - SPLIT_BY_NAME.keys())!r} is not the name of a split, such "
        "as train, dev or test; if it has the splits, name them so and add the file again (epigram add --replace)"
        for name in likely
    ]


def _key_hint(sample: pl.DataFrame) -> list[str]:
    """Return a note on columns that look like groups, by their name and repeated values, or like dates."""
    found = list[str]()
    for column in sample.get_columns():
        known = column.drop_nulls()
        if not tables.has_texts(column.dtype) or known.n_unique() < MIN_KEYS:
            continue
        if GROUP_COLUMNS.fullmatch(column.name.strip().lower()) and known.n_unique() < len(known):
            found.append(f"--group {column.name} keeps rows with the same value in one split")
        elif not column.dtype.is_numeric() and _are_dates(known.cast(pl.String)):
            found.append(f"--time {column.name} tests on the newest rows")
    return [f"the splits can follow a column: {list_names(found, 3)}"] if found else []


def _are_dates(values: pl.Series) -> bool:
    is_number = values.cast(pl.Float64, strict=False).is_not_null().any()
    return not is_number and parse_times(values.str.strip_chars()).null_count() == 0


def guess_language(texts: Iterable[str]) -> Language:
    """Return zh if more than a tenth of the characters of the first 1,000 texts are Han, else en."""
    text = "".join(islice(texts, 1000))
    return "zh" if len(re.findall(HAN, text)) * 10 > len(text) else "en"


def _garbled_notes(frame: pl.DataFrame) -> list[str]:
    """Return a note if most of the first 1,000 texts that are not ASCII are UTF-8 that was read by another encoding."""
    texts = [text for text in frame["text"].head(1000) if not text.isascii()]
    for encoding in ("cp1252", "latin-1", "gb18030"):
        found = list[tuple[str, str]]()
        for text in texts:
            with suppress(UnicodeError):
                pairs = zip(text.split(" "), text.encode(encoding).decode().split(" "), strict=True)
                found.append(next(pair for pair in pairs if pair[0] != pair[1]))
        if len(found) * 2 > len(texts):
            wrong, right = (shown(word[:20]) for word in found[0])
            return [
                f"texts are UTF-8 that a program read as {encoding}, such as {wrong!r} for {right!r}; export them again"
            ]
    return []


def _count_labels(column: pl.Series) -> dict[tuple[str, ...], int]:
    """Return the number of rows of each label, or of each list of labels; rows without a value are left out."""
    label = pl.col("label")
    is_list = isinstance(column.dtype, pl.List)
    stripped = label.list.eval(pl.element().drop_nulls().str.strip_chars()) if is_list else label.str.strip_chars()
    counted = column.to_frame("label").drop_nulls().group_by(stripped, maintain_order=True).len().iter_rows()
    return {tuple(value) if is_list else (value,): rows for value, rows in counted}


def _sort_labels(found: list[str], file: Path) -> list[str]:
    """Return the labels, numbers sorted by value. Raises DataError for a label with a control character."""
    if invalid := sorted(label for label in found if CONTROL_CHARACTER.search(label)):
        raise DataError(
            f"{file} has the label {shown(repr(invalid[0]))} with a control character; remove the character"
        )
    return in_usual_order(found)


def in_usual_order(labels: Iterable[str]) -> list[str]:
    """Return the labels sorted, numbers by value."""
    return sorted(labels, key=lambda label: ((number := parse_integer(label)) is None, number or 0, label))


def _find_splits(frame: pl.DataFrame, file: Path) -> dict[str, list[str]]:
    found: Iterable[str] = frame["split"].fill_null("").str.strip_chars().unique().sort()
    splits: dict[str, list[str]] = {}
    for value in found:
        if value.lower() not in SPLIT_BY_NAME:
            raise DataError(
                f"{file} has the unknown split {value!r}; expected {', '.join(SPLIT_BY_NAME)}; "
                "to create new splits, use --no-split"
            )
        splits.setdefault(SPLIT_BY_NAME[value.lower()], []).append(value)
    return splits
