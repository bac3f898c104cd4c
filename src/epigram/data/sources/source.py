"""Typed content of data/sources/NAME.yaml: where a data set comes from and how it is read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import isclose
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from epigram.core.config_types import (
    Folds,
    Name,
    OpenShare,
    Positive,
    Seed,
    Strict,
    check_name,
    is_http_url,
    nearest,
    read_yaml,
    shown,
    validate_as,
)
from epigram.core.errors import InputMissingError, ParameterError
from epigram.core.files import is_inside, read_json
from epigram.core.limits import MAX_BYTES
from epigram.data.sources.access import is_safe_path, redact_address

SOURCES = Path("data/sources")
DATABASE_SCHEMES = ("sqlite://", "postgresql://", "postgres://")
DATABASE_PREFIXES = (*DATABASE_SCHEMES, "${")  # "${": an environment variable has the database address
WEB_SCHEMES = ("https://", "http://")
ADDRESS_PREFIXES = (*WEB_SCHEMES, "hf://", *DATABASE_PREFIXES)

SPLIT_KEYS = ("group", "time")  # columns that decide the splits
ROLES = ("text", "label", "labels", "split", *SPLIT_KEYS, "file", "line", "tokens", "token_labels")  # columns as read
# also temporary columns, and columns that the validation and a growing data set add
RESERVED_COLUMNS = {*ROLES, "spans", "row", "in_train", "fold", "batch"}
WATCHED_FOLDERS = (Path("data/local"), Path("data/pocket"))  # folders in which the pipeline detects changed files
MAX_PATH_BYTES = 200  # bytes of a file's path below data/raw
GROWING_SUFFIX = "_live"  # name suffix of the growing data set that a retraining creates
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Split = Literal["train", "dev", "test"]


class SourceSection(Strict):
    """Base class for the content of a source file; a number such as `1` is accepted where a string is expected."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {**Strict.__pydantic_config__, "coerce_numbers_to_str": True}


@dataclass(frozen=True, kw_only=True)
class Archive(SourceSection):
    """Members of a tar.gz or zip archive that make up the file."""

    members: list[str]  # patterns for the last parts of a member's path: 20news-bydate-*/*/*
    to: Literal["tar", "file", "names"] = "tar"  # a tar of the members, the only member, or a list of their names


@dataclass(frozen=True, kw_only=True)
class File(SourceSection):
    """File of a source; `sha256` is the checksum of the final file in data/raw."""

    path: str  # path below data/raw
    url: str | list[str] = field(default_factory=list)  # official addresses; also hf://, sqlite:// and postgresql://
    local: str | None = None  # the user's own file, in data/local
    query: str | None = None  # SELECT statement for a database address
    archive: Archive | None = None
    sha256: str | None = None
    mirror: str | None = None  # path below EPIGRAM_MIRROR; .gz and .tar.gz are unpacked after download
    mirror_sha256: str | None = None  # hash of the mirror's file before unpacking
    max_bytes: Positive = MAX_BYTES  # maximum size of the download; a larger file is rejected
    read: dict[str, Any] = field(default_factory=dict)  # overrides the source's `read` for this file

    @property
    def public(self) -> File:
        """Copy without the secrets that the addresses may contain."""
        return replace(
            self, url=redact_address(self.url) if isinstance(self.url, str) else list(map(redact_address, self.url))
        )

    @property
    def addresses(self) -> list[str]:
        """Official addresses, in the order in which they are tried."""
        return [self.url] if isinstance(self.url, str) else self.url


@dataclass(frozen=True, kw_only=True)
class RowSample(SourceSection):
    """Random rows of a source, drawn for each label on its own.

    `per_class` is the maximum number of training rows of each label. `resplit` has the shares of new splits, which
    replace the source's own; it is empty if these stay.
    """

    per_class: Positive | None = None
    resplit: dict[Split, OpenShare] = field(default_factory=dict)
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class Source(SourceSection):
    """Data set: its files, how they are read, its labels and the expected number of rows."""

    name: Name
    about: str
    language: Literal["zh", "en"]
    task: Literal["single", "multi", "tokens", "files"]  # tokens: only token labels; files: download only
    licence: str
    files: list[File]
    read: dict[str, Any] = field(default_factory=dict)  # reader: NAME, and the options of that reader
    splits: dict[Split, list[str]] = field(default_factory=dict)  # file names, or values of the split column
    labels: list[str] = field(default_factory=list)  # labels in order; if empty, the sorted labels of the texts
    label_names: dict[str, str] = field(default_factory=dict)  # label → its name in the texts' language
    hierarchy: str = ""  # separator of levels in the labels, such as / in goods/phone
    rows: dict[Literal["train", "dev", "test", "all"], int] = field(default_factory=dict)  # expected counts
    keep: list[str] = field(default_factory=list)  # additional columns to keep
    text_columns: list[str] = field(default_factory=list)  # columns of new tables, if not those in `read`
    folds: Folds | None = None  # instead of validate.folds
    distinct: Literal["exact", "letters"] | None = None  # drop from train repeats and texts of dev or test
    sample: RowSample | None = None  # rows drawn at random, after `distinct`

    @property
    def public(self) -> Source:
        """Copy without the secrets that the addresses may contain; it is stored next to the files."""
        return replace(self, files=[file.public for file in self.files])

    @property
    def columns_of_text(self) -> list[str]:
        """Columns of a table that make up the text, joined by `join`."""
        named = self.text_columns or self.read.get("text", "text")
        return list(map(str, named)) if isinstance(named, list) else [str(named)]

    @property
    def join(self) -> str:
        """Separator of the columns that make up the text."""
        return str(self.read.get("join", " "))

    @property
    def counted(self) -> bool:
        """Whether `rows` has the number of all rows, or of the rows of each split."""
        return "all" in self.rows or (bool(self.splits) and self.splits.keys() <= self.rows.keys())


def load_source(name: str, folder: Path = SOURCES) -> Source:
    """Return the source `name`. Raises ParameterError for an unknown name, and lists the nearest known names."""
    check_name("dataset", name)
    path = folder / f"{name}.yaml"
    if not path.is_file():
        raise ParameterError(f"dataset {name!r} is not in {folder}; {_suggest_sources(path)}")
    return read_source(path)


def read_source(path: Path) -> Source:
    """Read a source from its YAML file, or from the source.json that `download` writes next to the files.

    Raises ParameterError for an invalid description, InputMissingError for a missing file.
    """
    try:
        values = read_json(path) if path.suffix == ".json" else read_yaml(path)
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing; {_suggest_sources(path)}") from None
    source = validate_as(Source, values, file=str(path))
    _check_source(source, path)
    return source


def _suggest_sources(path: Path) -> str:
    return nearest(path.stem, [other.stem for other in path.parent.glob("*.yaml")])


def _check_source(source: Source, path: Path) -> None:
    """Check what the types cannot express."""
    if path.suffix == ".yaml" and source.name != path.stem:
        raise ParameterError(f"{path}: name is {source.name!r}; expected {path.stem!r}, the name of the file")
    names = [file.path for file in source.files]
    for index, file in enumerate(source.files):
        _check_file(file, f"{path}: files.{index}")
        if path.suffix == ".yaml" and file.local is not None:
            local, folder = Path(file.local), WATCHED_FOLDERS[0]
            if not any(is_inside(local, each) for each in WATCHED_FOLDERS):
                raise ParameterError(
                    f"{path}: files.{index}.local is {file.local!r}; put the file into {folder} and set "
                    f"local: {folder / local.name}"
                )
        if conflict := next((name for name in names[:index] if _paths_overlap(name, file.path)), None):
            raise ParameterError(
                f"{path}: files.{index}.path is {file.path!r}, which conflicts with the path {conflict!r} of "
                "another file"
            )
    split_values = [value for values in source.splits.values() for value in values]
    for key, listed in (("labels", source.labels), ("splits", split_values), ("keep", source.keep)):
        if repeated := {name for name in listed if listed.count(name) > 1}:
            raise ParameterError(f"{path}: {key} has duplicates: {', '.join(sorted(repeated))}")
    if invalid := [label for label in source.labels if CONTROL_CHARACTER.search(label)]:
        raise ParameterError(
            f"{path}: the label {shown(repr(invalid[0]))} has a control character; remove the character"
        )
    _check_label_names(source, str(path))
    _check_sample(source, str(path))
    if source.task == "tokens" and source.labels:
        raise ParameterError(f"{path}: task: tokens infers the labels of the texts; remove labels")
    if reserved := set(source.keep) & RESERVED_COLUMNS:
        raise ParameterError(f"{path}: keep has reserved column names: {', '.join(sorted(reserved))}; remove them")


def _check_sample(source: Source, where: str) -> None:
    if source.sample is None:
        return
    shares = source.sample.resplit
    if source.task != "single":
        raise ParameterError(f"{where}: sample draws rows of each label; it needs task: single")
    if shares and ("train" not in shares or not isclose(sum(shares.values()), 1.0)):
        raise ParameterError(f"{where}: sample.resplit is {shares}; expected shares with train that add up to 1")


def _check_label_names(source: Source, where: str) -> None:
    names = source.label_names
    if source.labels:
        check_named_labels(source, source.labels, where)
    if invalid := [name for name in names.values() if not name.strip() or CONTROL_CHARACTER.search(name)]:
        raise ParameterError(
            f"{where}: label_names has the name {shown(repr(invalid[0]))}; expected a name without control characters"
        )
    if len(set(names.values())) < len(names):
        raise ParameterError(f"{where}: label_names has two labels with the same name; give each label its own name")


def check_named_labels(source: Source, labels: Iterable[str], where: str) -> None:
    """Raise ParameterError, starting with `where`, if `label_names` does not name exactly these labels, or none."""
    known, named = set(labels), set(source.label_names)
    if not named or named == known:
        return
    unknown, missing = sorted(named - known), sorted(known - named)
    fault = f"has {unknown[0]!r}, which is not a label" if unknown else f"lacks the label {missing[0]!r}"
    raise ParameterError(f"{where}: label_names {shown(fault)}; name every label, or remove label_names")


def _paths_overlap(first: str, second: str) -> bool:
    """Return whether two paths are equal or one contains the other, ignoring case and Unicode normalization form."""
    one, other = (PurePosixPath(unicodedata.normalize("NFC", path).casefold()) for path in (first, second))
    return one == other or one in other.parents or other in one.parents


def _check_file(file: File, where: str) -> None:
    if (
        not is_safe_path(file.path)
        or len(file.path.encode()) > MAX_PATH_BYTES
        or _paths_overlap(file.path, "source.json")
    ):
        raise ParameterError(f"{where}.path is {file.path!r}; expected a path below data/raw")
    if file.mirror is not None and not is_safe_path(file.mirror):
        raise ParameterError(f"{where}.mirror is {file.mirror!r}; expected a path below the mirror's folder")
    if bool(file.local) == bool(file.addresses or file.mirror):
        raise ParameterError(f"{where}: set either url (or mirror) or local")
    for address in file.addresses:
        if address.startswith(WEB_SCHEMES) and not is_http_url(address):
            raise ParameterError(
                f"{where}.url is {shown(redact_address(address))!r}, which is not a valid http address"
            )
        if not address.startswith(ADDRESS_PREFIXES):
            known = ", ".join(ADDRESS_PREFIXES[:-1])
            raise ParameterError(
                f"{where}.url is {redact_address(address)!r}; expected an address that starts with {known}; "
                "for a file, set local"
            )
    if bool(file.query) != any(address.startswith(DATABASE_PREFIXES) for address in file.addresses):
        raise ParameterError(f"{where}: a database address needs a query, and a query needs a database address")
