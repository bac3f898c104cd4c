"""Sources and corpora of one small file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from epigram.data.corpus import read_corpus
from epigram.data.sources.source import File, Source

CSV = "text,label\ngood film,1\n好看,1\nso so,0\n"


def source(read: dict[str, Any], *paths: str, **changes: Any) -> Source:
    files = [File(path=path, local=path) for path in paths or ["x.csv"]]
    given = {
        "name": "toy",
        "about": "",
        "language": "en",
        "task": "single",
        "licence": "",
        "files": files,
        "read": read,
    }
    return Source(**given | changes)


def corpus(folder: Path, content: str | bytes, read: dict[str, Any], **changes: Any) -> pl.DataFrame:
    (folder / "x.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return read_corpus(source(read, **changes), folder)
