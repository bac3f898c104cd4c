"""A folder with a file per text and a folder per label, as a table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from epigram.core.errors import DataError
from epigram.core.limits import LIMITS
from epigram.data.decoding import decode
from epigram.data.json_columns import ENCODE
from epigram.data.splitting import SPLIT_BY_NAME
from epigram.data.tables import Options
from epigram.text.guessing import detect_encoding

UNLABELLED = {"unsup", "unlabeled", "unlabelled"}  # folders of texts without a label, as in aclImdb


@contextmanager
def as_table(path: Path, options: Options) -> Iterator[tuple[Path, Options, list[str]]]:
    """Yield a table, the options to read it, and notes: `path` itself, or a temporary table of a folder's texts.

    Raises DataError for a folder without texts in folders of labels.
    """
    if not path.is_dir():
        yield path, options, []
        return
    with TemporaryDirectory() as place:
        table = Path(place) / f"{path.name}.jsonl"
        yield table, {key: value for key, value in options.items() if key != "encoding"}, _write(path, table, options)


def _write(folder: Path, table: Path, options: Mapping[str, str]) -> list[str]:
    """Write text, label, split (if outer folders are splits) and file of each text; return notes on ignored files."""
    files = _list_files(folder)
    outer = {file.parts[0].lower() for file in files if len(file.parts) > 1}
    roles = ("split", "label", "file")[not outer <= SPLIT_BY_NAME.keys() :]
    texts = [file for file in files if len(file.parts) == len(roles)]
    labelled = [file for file in texts if file.parts[-2].lower() not in UNLABELLED]
    if not labelled:
        raise DataError(f"{folder} has no texts in folders of labels; expected LABEL/FILE or train/LABEL/FILE")
    contents = ((folder / file).read_bytes() for file in labelled)
    encoding = options.get("encoding") or detect_encoding((content + b"\n" for content in contents), f"{folder}: text")
    with table.open("w", encoding="utf-8") as lines:
        for file in labelled:
            text = decode((folder / file).read_bytes(), encoding, folder / file)
            row = {"text": text, **dict(zip(roles, file.parts, strict=True)), "file": file.as_posix()}
            lines.write(f"{ENCODE(row)}\n")
    unlabelled, others = set(texts) - set(labelled), set(files) - set(texts)
    notes = {"texts without a label": unlabelled, "files that are in no folder of a label": others}
    return [f"{what} are left out: {len(found):,}, such as {min(found)}" for what, found in notes.items() if found]


def _list_files(folder: Path) -> list[Path]:
    """Return the paths of the files below a folder, sorted, without hidden ones and links. Raises DataError if many."""
    files: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(place, name) for name in sorted(names) if not name.startswith("."))
        files += [path.relative_to(folder) for path in paths if path.is_file() and not path.is_symlink()]
        if len(files) > LIMITS.members:
            raise DataError(f"{folder} has more than {LIMITS.members:,} files; put the texts into one table")
    return files
