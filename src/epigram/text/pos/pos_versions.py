"""Versions of the part-of-speech table: words that a tagger found in training texts, and that the package lacks.

The file words.tsv has a first line with the number of its version and the SHA-256 of its predecessor, then one line for
each language, word, tag and frequency. A new version keeps every line. Version 1 is the package's own table, without a
file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from epigram.core.errors import DataError
from epigram.core.files import atomic_file, sha256
from epigram.text.dataset.language import as_language, is_mark
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.text.pos.pos_table import PosTable, add_entries, load
from epigram.text.pos.taggers import count_tags, tagger_for
from epigram.text.pos.tagsets import read_table

VERSIONS_FOLDER = Path("data/pos_versions")  # relative to the repository root; a dependency of a stage in dvc.yaml
WORDS = "words.tsv"
SCHEMA = {"language": pl.String, "entry": pl.String, "tag": pl.String, "frequency": pl.Int64}
FIRST_LINE = re.compile(r"# version (\d{1,9}), follows ([0-9a-f]{64}|none)")
TEXTS, CHARACTERS = 200_000, 5_000_000  # maximum size of the texts that a new version is made from


@dataclass(frozen=True)
class Version:
    """A version: its number, the words of all versions so far, and the SHA-256 of the previous file."""

    number: int
    words: pl.DataFrame
    previous: str | None = None


def read_version(folder: Path) -> Version:
    """Return the latest version in `folder`, or version 1. Raises DataError for a damaged file."""
    path = folder / WORDS
    if not path.is_file():
        return Version(1, pl.DataFrame(schema=SCHEMA))
    with path.open(encoding="utf-8", errors="replace") as file:
        first = FIRST_LINE.fullmatch(file.readline().rstrip("\n"))
    if first is None:
        raise DataError(f"{path} line 1 is not '# version N, follows SHA-256': restore the file (dvc checkout {path})")
    rows = read_table(path, list(SCHEMA))
    try:
        words = rows.cast(SCHEMA)  # type: ignore[arg-type]
    except pl.exceptions.PolarsError:
        raise DataError(f"{path} has an invalid frequency: restore the file (dvc checkout {path})") from None
    return Version(int(first[1]), words, None if first[2] == "none" else first[2])


def add_version(table: PosTable, version: Version) -> PosTable:
    """Return `table` with the words of `version` that it lacks. Manual corrections and all other rows stay."""
    for (name,), words in version.words.group_by("language", maintain_order=True):
        table = add_entries(table, words.drop("language"), as_language(str(name)))
    return replace(table, version=version.number, previous=version.previous)


def publish(folder: Path, found: pl.DataFrame) -> Version | None:
    """Write the next version with the words of `found` (columns of SCHEMA) that the latest one lacks.

    Returns None, and writes nothing, if there are no such words.
    """
    latest, path = read_version(folder), folder / WORDS
    words = found.filter([not is_mark(entry) for entry in found["entry"]])  # the weight of a mark needs no row
    new = words.join(latest.words, on=["language", "entry"], how="anti", maintain_order="left")
    if new.is_empty():
        return None
    previous = sha256(path) if path.is_file() else None
    version = Version(latest.number + 1, pl.concat([latest.words, new.select(*SCHEMA)]), previous)
    with atomic_file(path) as temporary:
        head = f"# version {version.number}, follows {previous or 'none'}\n"
        body = version.words.write_csv(separator="\t", include_header=False, quote_style="never")
        temporary.write_text(head + body, encoding="utf-8")
    return version


def find_words(validated: Path, pos: Path, root: Path) -> pl.DataFrame:
    """Return the words of the training texts that the package's table lacks, with the columns of SCHEMA.

    `pos` is the output of the stage pos_table, and `root` the stage's working folder.
    """
    corpus, table = ValidatedCorpus.read(validated), load(pos)
    texts = corpus.sample("train", TEXTS, CHARACTERS)
    tagged = count_tags(tagger_for(corpus.language, table, root).tag(texts))
    grown = add_entries(table, tagged, corpus.language).frame.filter(pl.col("source") == "corpus")
    return grown.select("language", "entry", "parts").explode("parts").unnest("parts").select(*SCHEMA)
