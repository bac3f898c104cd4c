"""Reader for a tar of texts in a folder per label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epigram.core.errors import DataError
from epigram.data.decoding import decode
from epigram.data.readers import Reader, register
from epigram.data.sources.archives import iter_contents

# columns of readers that make a row of each file
COLUMNS = pl.Schema({"file": pl.String(), "line": pl.Int64(), "text": pl.String(), "label": pl.String()})


@register("posts")
@dataclass(frozen=True, kw_only=True)
class Posts(Reader):
    """Reader for a tar of plain text files …/SPLIT/LABEL/NAME."""

    encoding: str = "utf-8"

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield file, line, text, label, split, in the order of the tar.

        Raises DataError for a wrong encoding or a file without a folder.
        """
        rows, splits = [], []
        for file, data in iter_contents(path):
            if len(file.parts) < 2:
                raise DataError(f"{path}: {file} is not in a folder; expected FOLDER/FILE, where FOLDER is the label")
            rows.append((str(file), 1, decode(data, self.encoding, f"{path}: {file}"), file.parts[-2]))
            splits.append(file.parts[-3] if len(file.parts) > 2 else None)
        yield pl.DataFrame(rows, schema=COLUMNS, orient="row").with_columns(split=pl.Series(splits, dtype=pl.String))
