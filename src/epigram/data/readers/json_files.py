"""Reader for a tar of JSON objects with separate lists of labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from epigram.core.config_types import parse_json, shown
from epigram.core.errors import DataError, ParameterError
from epigram.data.decoding import decode, read_lines
from epigram.data.readers import Reader, register
from epigram.data.readers.posts import COLUMNS
from epigram.data.sources.access import is_safe_path
from epigram.data.sources.archives import iter_contents


@register("json_files")
@dataclass(frozen=True, kw_only=True)
class JsonFiles(Reader):
    """Reader for a tar of files …/NAME.json, whose key `text` has the text.

    `lists` has for each label the file that lists its NAME.json.
    """

    text: str = "text"
    lists: dict[str, str]

    def read(self, path: Path) -> Iterator[pl.DataFrame]:
        """Yield file, line, text, label, in the order of the tar.

        Raises DataError if a file is not a JSON object with the text, is in no list, or is in two lists. Raises
        ParameterError if a list is outside the source's folder.
        """
        labels: dict[str, str] = {}
        for label, name in self.lists.items():
            if not is_safe_path(name):
                raise ParameterError(
                    f"read.lists.{shown(label)} is {name!r}; expected the path of a file of the source"
                )
            for listed in read_lines(path.parent / name)["text"]:
                if listed in labels:
                    raise DataError(
                        f"{path.parent / name} lists {listed}, which the list of {labels[listed]!r} also contains"
                    )
                labels[listed] = label
        rows = []
        for file, data in iter_contents(path):
            if file.name not in labels:
                raise DataError(f"{path}: {file} is not in any list of labels")
            rows.append((str(file), 1, _text(data, self.text, f"{path}: {file}"), labels[file.name]))
        yield pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _text(data: bytes, key: str, where: str) -> str:
    try:
        value = parse_json(decode(data, "utf-8", where))
    except ValueError as error:
        raise DataError(f"{where} is not valid JSON ({error})") from None
    if not isinstance(value, dict) or not isinstance(value.get(key), str):
        raise DataError(f"{where} has no string under the key {key!r}")
    return str(value[key])
