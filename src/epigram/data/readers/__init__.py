"""Readers of files by name, as `reader:` of a source names them.

Each module of this package registers one reader under its own name: a class with the reader's options as fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from epigram.core.registry import Registry
from epigram.data.sources.source import Source, SourceSection

if TYPE_CHECKING:
    import polars as pl

TOKEN_LABEL_OPTIONS = {"spans", "token_labels", "token_names"}  # options that make a reader label tokens


class Reader(SourceSection, ABC):
    """Base class of readers; `labels_tokens`: the reader labels tokens whatever its options are."""

    labels_tokens: ClassVar[bool] = False

    @abstractmethod
    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield the rows of a file: line (from 1), text and, depending on the format, label, split and tokens."""

    def without_headers(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the `rows` without repeated headers, if the format has column names."""
        return rows


KINDS: Registry[type[Reader]] = Registry(__name__)
register = KINDS.register


def labels_tokens(source: Source) -> bool:
    """Return whether tokens of the texts have labels."""
    sections = [source.read, *(file.read for file in source.files)]
    names = {str(section["reader"]) for section in sections if "reader" in section}
    named = any(not TOKEN_LABEL_OPTIONS.isdisjoint(section) for section in sections)
    return named or any(KINDS[name].labels_tokens for name in names if name in KINDS)
