"""Where a corpus comes from and how it is read: data/sources/NAME.yaml, typed."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from pithy.corpus.access import contained, hidden
from pithy.corpus.limits import MAX_BYTES
from pithy.errors import InputMissingError, ParameterError
from pithy.files import read_json, stands_in
from pithy.values import Name, Positive, Strict, check_name, is_web_address, nearest, read_yaml, shown, typed

SOURCES = Path("data/sources")
DATABASES = ("sqlite://", "postgresql://", "postgres://")
QUERIED = (*DATABASES, "${")  # an environment variable holds a database's address
WEB = ("https://", "http://")
FETCHED = (*WEB, "hf://", *QUERIED)

TOKEN_READING = {"spans", "token_labels", "token_label", "token_names", "conll", "m2"}  # readers, and options of others
ROLES = ("text", "label", "labels", "split", "file", "line", "tokens", "token_labels")  # columns of a read corpus
TAKEN = {*ROLES, "spans", "row", "in_train"}  # and those that come and go on its way, or that validation adds
WATCHED = (Path("data/local"), Path("data/pocket"))  # where the pipeline sees that a file has changed
LONGEST_PATH = 200  # bytes of a file's name below data/raw
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Split = Literal["train", "dev", "test"]


class Declared(Strict):
    """Base of what a source file declares: `1` is taken where a label's name is meant."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {**Strict.__pydantic_config__, "coerce_numbers_to_str": True}


@dataclass(frozen=True, kw_only=True)
class Archive(Declared):
    """Which members of a tar.gz or zip archive make the file."""

    members: list[str]  # patterns of the last parts of a member's path: 20news-bydate-*/*/*
    to: Literal["tar", "file", "names"] = "tar"  # the members as a tar, the one member, or a list of their file names


@dataclass(frozen=True, kw_only=True)
class File(Declared):
    """One file of a source; `sha256` is of what stands in data/raw in the end."""

    path: str  # name below data/raw
    url: str | list[str] = field(default_factory=list)  # official addresses; also hf://, sqlite:// and postgresql://
    local: str | None = None  # a file of the user's, in data/local
    query: str | None = None  # the SELECT of a database address
    archive: Archive | None = None
    sha256: str | None = None
    mirror: str | None = None  # path below PITHY_MIRROR; .gz and .tar.gz are unpacked on arrival
    mirror_sha256: str | None = None  # of the mirror's file as it arrives
    max_bytes: Positive = MAX_BYTES  # of what is fetched; a larger file is refused
    read: dict[str, Any] = field(default_factory=dict)  # what differs from the source's `read` for this file

    @property
    def public(self) -> File:
        """The file without the secrets that its addresses may hold."""
        return replace(self, url=hidden(self.url) if isinstance(self.url, str) else list(map(hidden, self.url)))

    @property
    def addresses(self) -> list[str]:
        """The official addresses, in the order in which they are tried."""
        return [self.url] if isinstance(self.url, str) else self.url


@dataclass(frozen=True, kw_only=True)
class Source(Declared):
    """A data set: its files, how they are read, its labels and what must come out."""

    name: Name
    about: str
    language: Literal["zh", "en"]
    task: Literal["single", "multi", "tokens", "files"]  # tokens: only they are labelled; files: only fetched
    licence: str
    files: list[File]
    read: dict[str, Any] = field(default_factory=dict)  # reader: NAME, and that reader's options
    splits: dict[Split, list[str]] = field(default_factory=dict)  # files, or values of the reader's split column
    labels: list[str] = field(default_factory=list)  # in order; none: those of the texts, sorted
    rows: dict[Literal["train", "dev", "test", "all"], int] = field(default_factory=dict)  # expected counts
    keep: list[str] = field(default_factory=list)  # further columns that go along
    distinct: Literal["exact", "letters"] | None = None  # drop repeats from train, and what is in dev or test

    @property
    def public(self) -> Source:
        """What may stand beside the files: the source without the secrets that its addresses may hold."""
        return replace(self, files=[file.public for file in self.files])

    @property
    def labels_tokens(self) -> bool:
        """Whether the tokens of its texts have labels."""
        options = [self.read, *(file.read for file in self.files)]
        return any(not TOKEN_READING.isdisjoint((*each, each.get("reader"))) for each in options)


def load_source(name: str, folder: Path = SOURCES) -> Source:
    """The source called `name`; an unknown name is a ParameterError that names the nearest ones."""
    check_name("dataset", name)
    path = folder / f"{name}.yaml"
    if not path.is_file():
        raise ParameterError(f"dataset was {name!r}, which is not in {folder}: {_nearest(path)}")
    return read_source(path)


def read_source(path: Path) -> Source:
    """Read a source from its YAML, or from the source.json that `download` leaves beside the files.

    Raises ParameterError for what cannot be right, InputMissingError for a missing file.
    """
    source = typed(Source, _parsed(path), file=str(path))
    _check(source, path)
    return source


def _parsed(path: Path) -> Any:
    if path.suffix == ".json":
        return read_json(path)
    try:
        return read_yaml(path)
    except FileNotFoundError:
        raise InputMissingError(f"{path} is missing: {_nearest(path)}") from None


def _nearest(path: Path) -> str:
    return nearest(path.stem, [other.stem for other in path.parent.glob("*.yaml")])


def _check(source: Source, path: Path) -> None:
    """What the types cannot say."""
    if path.suffix == ".yaml" and source.name != path.stem:
        raise ParameterError(f"{path}: name was {source.name!r}: a source is named like its file, {path.stem!r}")
    names = [file.path for file in source.files]
    for index, file in enumerate(source.files):
        _check_file(file, f"{path}: files.{index}")
        if path.suffix == ".yaml" and file.local is not None:
            _check_local(file.local, f"{path}: files.{index}")
        if clash := next((name for name in names[:index] if _clash(name, file.path)), None):
            raise ParameterError(
                f"{path}: files.{index}.path was {file.path!r}: another file is {clash!r}, and both cannot be written"
            )
    keys = [key for keys in source.splits.values() for key in keys]
    for what, listed in (("labels", source.labels), ("splits", keys), ("keep", source.keep)):
        if repeated := {name for name in listed if listed.count(name) > 1}:
            raise ParameterError(f"{path}: {what} names {', '.join(sorted(repeated))} twice")
    if unfit := [label for label in source.labels if CONTROL.search(label)]:
        raise ParameterError(
            f"{path}: labels has {shown(repr(unfit[0]))}: control characters are not allowed in a label"
        )
    if source.task == "tokens" and source.labels:
        raise ParameterError(f"{path}: labels are those of texts, and task: tokens infers them: leave labels out")
    if taken := set(source.keep) & TAKEN:
        raise ParameterError(f"{path}: keep names {', '.join(sorted(taken))}, which a corpus has anyway")


def _clash(first: str, second: str) -> bool:
    """Whether two paths name one file, or one the folder of the other, where case and accents' form do not count."""
    one, other = (PurePosixPath(unicodedata.normalize("NFC", path).casefold()) for path in (first, second))
    return one == other or one in other.parents or other in one.parents


def _check_file(file: File, where: str) -> None:
    if not contained(file.path) or len(file.path.encode()) > LONGEST_PATH or _clash(file.path, "source.json"):
        raise ParameterError(f"{where}.path was {file.path!r}: a name below data/raw is needed")
    if file.mirror is not None and not contained(file.mirror):
        raise ParameterError(f"{where}.mirror was {file.mirror!r}: a path below the mirror's folder is needed")
    if bool(file.local) == bool(file.addresses or file.mirror):
        raise ParameterError(f"{where} needs either a url (or a mirror) or a local file")
    for address in file.addresses:
        if address.startswith(WEB) and not is_web_address(address):
            raise ParameterError(f"{where}.url was {shown(hidden(address))!r}, which is not a valid http address")
        if not address.startswith(FETCHED):
            known = ", ".join(FETCHED[:-1])
            raise ParameterError(f"{where}.url was {hidden(address)!r}: {known} are known; a file is `local`")
    if bool(file.query) != any(address.startswith(QUERIED) for address in file.addresses):
        raise ParameterError(f"{where}: a database address and a query belong together")


def _check_local(path: str, where: str) -> None:
    file, home = Path(path), WATCHED[0]
    if not any(stands_in(file, folder) for folder in WATCHED):
        raise ParameterError(f"{where}.local was {path!r}: put the file into {home} and say {home / file.name}")
