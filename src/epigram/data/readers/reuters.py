"""Reader for Reuters-21578: SGML files with the ModApte split in the attributes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epigram.core.errors import DataError
from epigram.data.decoding import decode
from epigram.data.readers import Reader, register
from epigram.data.sources.archives import iter_contents

DOCUMENT = re.compile(r"<REUTERS ([^>]*)>(.*?)</REUTERS>", re.DOTALL)
TOPICS = re.compile(r"<TOPICS>(.*?)</TOPICS>", re.DOTALL)
TOPIC = re.compile(r"<D>(.*?)</D>")
CONTENT = re.compile(r"<TEXT[^>]*>(.*?)</TEXT>", re.DOTALL)
COLUMNS = pl.Schema(
    {"file": pl.String(), "line": pl.Int64(), "text": pl.String(), "label": pl.List(pl.String), "split": pl.String()}
)
TITLE_AND_BODY = re.compile(r"<(TITLE|BODY)>(.*?)</\1>", re.DOTALL)


@register("reuters")
@dataclass(frozen=True, kw_only=True)
class Reuters(Reader):
    """Reader for a tar of the reut2-*.sgm files."""

    encoding: str = "latin-1"

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield file, line, text (title, then body), label (list of topics) and split (TRAIN or TEST).

        The rows are the ModApte split: the documents with TOPICS="YES" whose LEWISSPLIT is TRAIN or TEST.
        Raises DataError if a file has no documents.
        """
        rows = [
            row
            for file, data in iter_contents(path)
            if file.suffix == ".sgm"
            for row in _parse_documents(str(file), decode(data, self.encoding, f"{path}: {file}"))
        ]
        yield pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _parse_documents(file: str, content: str) -> list[tuple[str, int, str, list[str], str]]:
    documents = list(DOCUMENT.finditer(content))
    if not documents:
        raise DataError(f"{file} has no <REUTERS> document")
    rows, line, position = [], 1, 0
    for match in documents:
        line, position = line + content.count("\n", position, match.start()), match.start()
        attributes, body = match[1], match[2]
        split = re.search(r'LEWISSPLIT="(TRAIN|TEST)"', attributes)
        if split and 'TOPICS="YES"' in attributes:
            found = TOPICS.search(body)
            topics = list(dict.fromkeys(TOPIC.findall(found[1]))) if found else []  # one document has a topic twice
            rows.append((file, line, _text(body), topics, split[1]))
    return rows


def _text(document: str) -> str:
    """Return title and body, or the whole text of a document that has neither (TYPE="UNPROC")."""
    content = CONTENT.search(document)
    inner = content[1] if content else ""
    parts = [part for _, part in TITLE_AND_BODY.findall(inner)] or [re.sub(r"<[^>]*>", "", inner)]
    return html.unescape("\n".join(part.strip() for part in parts)).strip()
